/** How long a queue may take to say that it has an event: some engines wait for a lost server for ever. */
import { integer, readOptions } from '../core/options.js';

/** Options that every queue takes. */
export interface DeadlineOptions {
  /**
   * How long to wait for the engine, in ms. After that the delivery is answered 503, although the job may
   * still get there: it is known by its id, and the inbox lets only one have the event.
   *
   * @default 5_000
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID`, naming the option.
 */
export function readDeadline(options: DeadlineOptions): { readonly timeoutMs: number } {
  return readOptions('queue', options, { timeoutMs: integer({ default: 5_000 }) });
}

/** Waits for the answer at most so long, then rejects. */
export async function within<Value>(timeoutMs: number, answer: Promise<Value>): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(
        new Error(`The queue did not answer within ${timeoutMs} ms. Check that its server can be reached.`),
      );
    }, timeoutMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
