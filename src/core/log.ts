/** Log lines for operators, and calls to the app's observers. Neither may affect what happens to an event. */
import { describeThrown } from './errors.js';
import type { Logger } from './ports.js';

/** The longest line, in characters, because a handler's error may quote a whole response. */
const MAX_LINE = 10_000;

/** Writes one line. Errors of a logger are ignored, because there is nowhere else to report them. */
export async function log(logger: Logger, level: 'warn' | 'error', line: string): Promise<void> {
  const rest = line.length > MAX_LINE ? `… (${line.length - MAX_LINE} more characters)` : '';
  try {
    await logger[level](`stablehooks: ${line.slice(0, MAX_LINE)}${rest}`);
  } catch {}
}

/** Calls an observer of the app. Its errors are logged under the option's name and ignored. */
export async function notify<Value>(
  option: string,
  observer: (value: Value) => unknown,
  { value, logger }: { readonly value: Value; readonly logger: Logger },
): Promise<void> {
  try {
    await observer(value);
  } catch (error) {
    log(logger, 'error', `${option} threw an error, which was ignored. ${describeThrown(error)}`);
  }
}
