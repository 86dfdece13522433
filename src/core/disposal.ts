type DisposeKey = typeof Symbol extends { readonly asyncDispose: infer Key extends symbol } ? Key : never;

/**
 * `[Symbol.asyncDispose]()`, for `await using`.
 * In an app without `esnext.disposable` in its `lib`, the type is empty and other code still compiles.
 */
export type AsyncDisposal = { readonly [_ in DisposeKey]: () => Promise<void> };
