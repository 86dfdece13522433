/** Lines for operators, and the app's own observers: neither may change what happens to an event. */
import { describeThrown } from './errors.js';
import type { Logger } from './ports.js';

/** The longest line, in characters: the error of a handler can quote a whole response. */
const MAX_LINE = 10_000;

/** Writes one line. The failure of a logger is ignored: there is nowhere else to report it. */
export async function log(logger: Logger, level: 'warn' | 'error', line: string): Promise<void> {
  const rest = line.length > MAX_LINE ? `… (${line.length - MAX_LINE} characters more)` : '';
  try {
    await logger[level](`stablehooks: ${line.slice(0, MAX_LINE)}${rest}`);
  } catch {}
}

/** Calls an observer of the app. Its failure is logged under the name of its option and ignored. */
export async function notify<Value>(
  option: string,
  observer: (value: Value) => unknown,
  { value, logger }: { readonly value: Value; readonly logger: Logger },
): Promise<void> {
  try {
    await observer(value);
  } catch (error) {
    log(logger, 'error', `${option} threw an error, which is ignored. ${describeThrown(error)}`);
  }
}
