/** One call: its attempts, the waits between them, and the second token after a 401. */
import { type Answered, attempt, type Call, connectionMessage } from './attempt.js';
import { DeadlineError, wait, withDeadline } from './deadline.js';
import { ApiError, ConnectionError } from './errors.js';
import type { ClientRules, Retry } from './options.js';
import { mayRetry, waitMs } from './retry.js';

/** Sends a call until it is answered or may not be sent again; answers a 2xx. */
export async function send(call: Call, rules: ClientRules): Promise<Answered> {
  let renewed = false;
  let renew = false;
  let retries = 0;
  for (let count = 1; ; count++) {
    try {
      return await withDeadline((signal) => attempt(call, { ...rules, signal, renew }), {
        signal: call.signal,
        timeoutMs: rules.timeoutMs,
      });
    } catch (cause) {
      call.signal?.throwIfAborted();
      renew = false;
      const error = cause instanceof DeadlineError ? tooSlow(call, rules) : cause;
      const again = { attempt: count, method: call.method, url: rules.baseUrl + call.path };
      if (isRefusedToken(error) && typeof rules.token === 'function' && !renewed) {
        renewed = renew = true;
        tell(rules, { ...again, waitMs: 0, error });
      } else if (mayRetry(error) && retries < rules.retries) {
        retries++;
        const pauseMs = waitMs(error, { attempt: retries, baseMs: rules.baseWaitMs, maxMs: rules.maxWaitMs });
        tell(rules, { ...again, waitMs: pauseMs, error });
        await wait(pauseMs, { signal: call.signal });
      } else {
        throw error;
      }
    }
  }
}

function tooSlow({ method, path }: Call, rules: ClientRules): ConnectionError {
  const called = { method, url: rules.baseUrl + path };
  const what = `was not answered within ${rules.timeoutMs} ms (timeoutMs)`;
  return new ConnectionError(connectionMessage(called, { what, unsent: false }), {
    ...called,
    unsent: false,
  });
}

function isRefusedToken(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 401;
}

function tell(rules: ClientRules, retry: Retry): void {
  Promise.resolve(retry)
    .then(rules.onRetry)
    .catch(() => undefined);
}
