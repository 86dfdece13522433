/** A value, or a promise for it. */
export type Awaitable<Value> = Value | Promise<Value>;

/** Whether a value must be awaited. Recognises promises of libraries and of other realms as well. */
export function isPromise<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof (value as Partial<PromiseLike<Value>> | null | undefined)?.then === 'function';
}

export function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** Functions that return what an async function returns. */
const wrappers = new WeakSet<object>();

/** Whether a function is async: as it was compiled, so a function that returns a promise may not count as one. */
export function isAsync(value: object): boolean {
  return Object.prototype.toString.call(value) === '[object AsyncFunction]' || wrappers.has(value);
}

/** Returns `wrapper`, which is async if what it calls is. */
export function wrapping<Wrapper extends object>(called: object, wrapper: Wrapper): Wrapper {
  if (isAsync(called)) wrappers.add(wrapper);
  return wrapper;
}
