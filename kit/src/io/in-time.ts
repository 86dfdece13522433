/**
 * Waits for an answer, because not all drivers limit that time.
 *
 * @param late - returns the error at the time limit, in ms.
 */
export async function inTime<Answer>(
  answer: Promise<Answer>,
  limitMs: number,
  late: () => Error,
): Promise<Answer> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), limitMs).unref();
  });
  return Promise.race([answer, limit]).finally(() => clearTimeout(timer));
}
