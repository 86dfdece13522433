/** Waits for work, but at most `limitMs`, because not all drivers have a time limit. `late` returns the error. */
export function inTime<Value>(work: Promise<Value>, limitMs: number, late: () => Error): Promise<Value> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(late()), limitMs);
  return untilAborted(work, limit.signal).finally(() => clearTimeout(timer));
}

/** Waits for work until the signal aborts, even if the work ignores the signal. Rejects with the signal's reason. */
export function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}
