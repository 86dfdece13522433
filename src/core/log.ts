/** Lines for operators, and the app's own observers: neither may change what happens to an event. */
import { isPromise } from './awaitable.js';
import { describeThrown } from './errors.js';
import type { Logger } from './ports.js';

/** The longest line, in characters: the error of a handler can quote a whole response. */
const MAX_LINE = 10_000;

/** Writes one line. The failure of a logger is ignored: there is nowhere else to report it. */
export function log(logger: Logger, level: 'warn' | 'error', line: string): void {
  const rest = line.length > MAX_LINE ? `… (${line.length - MAX_LINE} characters more)` : '';
  try {
    const pending: unknown = logger[level](`stablehooks: ${line.slice(0, MAX_LINE)}${rest}`);
    if (isPromise(pending)) pending.then(undefined, () => undefined);
  } catch {}
}

/** Calls an observer of the app. Its failure is logged under the name of its option and ignored. */
export function notify<Value>(
  option: string,
  observer: (value: Value) => unknown,
  { value, logger }: { readonly value: Value; readonly logger: Logger },
): void {
  const ignore = (error: unknown) =>
    log(logger, 'error', `${option} threw an error, which is ignored. ${describeThrown(error)}`);
  try {
    const pending = observer(value);
    if (isPromise(pending)) pending.then(undefined, ignore);
  } catch (error) {
    ignore(error);
  }
}
