/** Adds a time limit, because not all drivers have one. */
export function inTime<Value>(work: Promise<Value>, limitMs: number, late: () => Error): Promise<Value> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(late()), limitMs);
  return untilAborted(work, limit.signal).finally(() => clearTimeout(timer));
}

/** Rejects with the signal's reason even if the work ignores the signal. */
export function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
