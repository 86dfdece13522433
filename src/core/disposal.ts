/** `await using`, as far as the compiler's `lib` has it. */

type DisposeKey = typeof Symbol extends { readonly asyncDispose: infer Key extends symbol } ? Key : never;

/**
 * `[Symbol.asyncDispose]()`, so that `await using` works. Without `esnext.disposable` in the `lib` of an app, the type is
 * empty and the app's other code compiles.
 */
export type AsyncDisposal = { readonly [_ in DisposeKey]: () => Promise<void> };
