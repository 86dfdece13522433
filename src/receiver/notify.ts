/** Telling an observer of the user's, without letting that change what it is told of. */

/** Calls an observer; what it throws or rejects is logged under its option's name and goes no further. */
export function notify<Value>(
  option: string,
  { observer, value }: { readonly observer: (value: Value) => void | Promise<void>; readonly value: Value },
): void {
  const log = (fault: unknown) =>
    console.error(`stablehooks: ${option} failed; what it was told stands.`, fault);
  try {
    const pending: unknown = observer(value);
    if (pending !== undefined) Promise.resolve(pending).catch(log);
  } catch (fault) {
    log(fault);
  }
}
