/** A value, or a promise for it. */
export type Awaitable<Value> = Value | Promise<Value>;

/** Whether a value must be awaited. It may be a promise from a library or from another realm. */
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

/** Whether a function is async in the compiled code. A function that only returns a promise doesn't count. */
export function isAsync(value: object): boolean {
  return Object.prototype.toString.call(value) === '[object AsyncFunction]' || wrappers.has(value);
}

/** Returns `wrapper`, and marks it as async if the function that it calls is async. */
export function wrapping<Wrapper extends object>(called: object, wrapper: Wrapper): Wrapper {
  if (isAsync(called)) wrappers.add(wrapper);
  return wrapper;
}
