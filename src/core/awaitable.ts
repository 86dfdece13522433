/** A value, or a promise that resolves to the value. */
export type Awaitable<Value> = Value | Promise<Value>;

/** Whether a value has a `then` method, as every promise does, even a promise from a library or another realm. */
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

/** Functions that aren't async themselves, but call an async function and return its promise. */
const wrappers = new WeakSet<object>();

/** Whether a function is async in the compiled code, or was marked as async. Returning a promise isn't enough. */
export function isAsync(value: object): boolean {
  return Object.prototype.toString.call(value) === '[object AsyncFunction]' || wrappers.has(value);
}

/** Marks `wrapper` as async if the function `called` is async, and returns `wrapper`. */
export function wrapping<Wrapper extends object>(called: object, wrapper: Wrapper): Wrapper {
  if (isAsync(called)) wrappers.add(wrapper);
  return wrapper;
}
