import { StablehooksError, UnavailableError } from '../core/errors.js';
import type { Awaitable } from '../core/ports.js';

/** @throws {UnavailableError} `ERR_INBOX_FAILED` with the driver's error as its cause. */
export async function askInbox<Value>(call: () => Awaitable<Value>): Promise<Value> {
  try {
    return await call();
  } catch (cause) {
    if (cause instanceof StablehooksError) throw cause;
    const message = 'The inbox failed; see the cause. Check that it can be reached.';
    throw new UnavailableError('ERR_INBOX_FAILED', message, { cause });
  }
}
