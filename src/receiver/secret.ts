/** The `secret` option of a receiver: fixed secrets, or a function of the request. */
import { isPromise } from '../core/awaitable.js';
import { type Runtime, timeLimit } from '../core/runtime.js';
import { type Secret, type SecretFunction, type Secrets, toSecrets } from '../core/signature.js';
import type { WebhookRequest } from './request.js';

/**
 * The unverified request that a `secret` function receives. Everything in it is a claim of the sender: use it only to
 * select the secret that must match.
 */
export interface SecretRequest {
  /**
   * The requested path, including the prefix that a framework mounts the receiver at. It is not decoded. `''` where the
   * adapter does not pass it.
   */
  readonly path: string;
  /** The parameters after the `?`, decoded. */
  readonly query: URLSearchParams;
  readonly headers: {
    /** The value of a header, several joined by a comma; `null` if it is missing. The name is case-insensitive. */
    get(name: string): string | null;
  };
}

/** Fixed secrets, or a function that is called for each delivery before anything in it is trusted. */
export type ReceiverSecret = Secrets | SecretFunction<[request: SecretRequest]>;

/** Fixed secrets, or the function that returns the secrets of a request. */
export type SecretOfRequest = readonly Secret[] | ((request: WebhookRequest) => SecretFunction);

/** Copies fixed secrets. A function has at most `timeoutMs` to answer, because any sender can make the receiver call it. */
export function readSecret(
  secret: ReceiverSecret,
  { runtime, timeoutMs }: { readonly runtime: Runtime; readonly timeoutMs: number },
): SecretOfRequest {
  if (typeof secret !== 'function')
    return toSecrets(secret).map((each) => (typeof each === 'string' ? each : new Uint8Array(each)));
  const onTimeUp = () => {
    throw new Error(`It returned no secret within ${timeoutMs} ms.`);
  };
  return (request) => () => {
    const answer = secret(toSecretRequest(request));
    return isPromise(answer) ? timeLimit(answer, timeoutMs, onTimeUp, runtime) : answer;
  };
}

function toSecretRequest(request: WebhookRequest): SecretRequest {
  // Some platforms pass an absolute URL. A fragment (#) is never sent.
  const [target = ''] = (request.url ?? '').replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '').split('#', 1);
  const end = target.indexOf('?');
  return Object.freeze({
    path: end === -1 ? target : target.slice(0, end),
    query: new URLSearchParams(end === -1 ? '' : target.slice(end)),
    headers: Object.freeze({ get: (name: string) => request.header(name) ?? null }),
  });
}
