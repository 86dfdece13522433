/** A value, or a promise of one. A synchronous answer needs no `await`. */
export type Awaitable<Value> = Value | Promise<Value>;

/** Whether a value must be awaited. Recognises promises of libraries and of other realms as well. */
export function isPromise<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof (value as Partial<PromiseLike<Value>> | null | undefined)?.then === 'function';
}

/** A promise, and the function that resolves it. */
export function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
