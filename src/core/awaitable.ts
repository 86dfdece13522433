export type Awaitable<Value> = Value | Promise<Value>;

/** Any thenable counts, because a promise can come from a library or another realm. */
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

/** Functions that aren't async themselves but return the promise of an async function. */
const wrappers = new WeakSet<object>();

/** The function must be async in the compiled code, or marked as async: returning a promise isn't enough. */
export function isAsync(value: object): boolean {
  return Object.prototype.toString.call(value) === '[object AsyncFunction]' || wrappers.has(value);
}

export function wrapping<Wrapper extends object>(called: object, wrapper: Wrapper): Wrapper {
  if (isAsync(called)) wrappers.add(wrapper);
  return wrapper;
}
