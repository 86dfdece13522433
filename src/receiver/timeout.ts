/** Waits for an answer for `ms`, then rejects with the error. What answers later is ignored. */
export function orTimeout<Value>(
  answer: PromiseLike<Value>,
  ms: number,
  toError: () => Error,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        reject(toError());
      } catch (error) {
        reject(error);
      }
    }, ms);
    answer.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
