/** Asking the inbox or the queue: whatever a driver throws becomes an error that says what to check. */
import { StablehooksError, UnavailableError } from '../core/errors.js';

const WHAT = {
  ERR_INBOX_FAILED: 'inbox',
  ERR_QUEUE_FAILED: 'queue',
} as const;

/**
 * Waits for an answer of the inbox or the queue.
 *
 * @throws {UnavailableError} with this code; errors of this package's own pass through.
 */
export async function reach<Value>(code: keyof typeof WHAT, answer: Promise<Value>): Promise<Value> {
  try {
    return await answer;
  } catch (cause) {
    if (cause instanceof StablehooksError) throw cause;
    throw new UnavailableError(
      code,
      `The ${WHAT[code]} failed; see the cause. Check that it can be reached: the event is wanted again, and nothing was said to be done.`,
      { cause },
    );
  }
}
