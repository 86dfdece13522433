/** How much of a rejected body to read and discard; otherwise, its sender might not be able to read the response. */
export const DRAIN_BYTES = 4 * 1_048_576;
export const DRAIN_MS = 5_000;
/** How long to wait for the rest of a body, in ms, before sending a response after which the connection closes. */
export const RESPONSE_WAIT_MS = 1_000;
