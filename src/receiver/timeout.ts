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
    const end = () => clearTimeout(timer);
    answer.then(
      (value) => {
        end();
        resolve(value);
      },
      (error: unknown) => {
        end();
        reject(error);
      },
    );
  });
}
