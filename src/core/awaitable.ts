/** A value that is there, or a promise of one: what answers immediately need not be awaited. */
export type Awaitable<Value> = Value | Promise<Value>;

/** Whether a value has to be awaited: a promise of the platform, of a library, or of another realm. */
export function isPromise<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  return typeof (value as Partial<PromiseLike<Value>> | null | undefined)?.then === 'function';
}
