/** How much of a refused body is discarded, and for how long: the sender can read the answer, and the connection serves on. */
export const DRAIN_BYTES = 4 * 1_048_576;
export const DRAIN_MS = 5_000;
/** How long a response waits for the drain, where the connection closes after it. */
export const RESPONSE_WAIT_MS = 1_000;
