/**
 * How much of a refused body is read and discarded, so that the sender reads the answer and the connection serves its next
 * delivery. Beyond either bound the connection closes.
 */
export const DRAIN_BYTES = 4 * 1_048_576;
export const DRAIN_MS = 1_000;
