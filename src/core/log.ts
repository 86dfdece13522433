import { describeThrown } from './errors.js';
import type { Logger } from './ports.js';

/** In characters. A handler's error can quote a whole response. */
const MAX_LINE = 10_000;

/** An error thrown by the logger is ignored, because it can't be reported anywhere else. */
export async function log(logger: Logger, level: 'warn' | 'error', line: string): Promise<void> {
  const rest = line.length > MAX_LINE ? `… (${line.length - MAX_LINE} more characters)` : '';
  try {
    await logger[level](`stablehooks: ${line.slice(0, MAX_LINE)}${rest}`);
  } catch {}
}

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
