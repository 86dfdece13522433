/**
 * How much of a refused body is read and discarded, and for how long. The sender can then read the answer, and the
 * connection can serve its next delivery. Beyond either bound the connection closes.
 */
export const DRAIN_BYTES = 4 * 1_048_576;
export const DRAIN_MS = 5_000;
/** How long a response waits for the drain, where the connection closes after it. */
export const RESPONSE_WAIT_MS = 1_000;
