/**
 * How much of a refused body to discard, and for how long, so that the sender can read the response and the connection
 * stays usable.
 */
export const DRAIN_BYTES = 4 * 1_048_576;
export const DRAIN_MS = 5_000;
/** How long a response waits for the drain if the connection closes afterwards. */
export const RESPONSE_WAIT_MS = 1_000;
