import { isPromise } from '../core/awaitable.js';
import { type Runtime, timeLimit } from '../core/runtime.js';
import { type Secret, type SecretFunction, type Secrets, toSecrets } from '../core/signature.js';
import type { WebhookRequest } from './request.js';

/**
 * The unverified request that a `secret` function receives. Anyone could have sent it, so use it only to select the secret
 * to verify the signature against.
 */
export interface SecretRequest {
  /** The requested path, undecoded and including any mount prefix; `''` if the adapter doesn't provide a URL. */
  readonly path: string;
  /** The decoded query parameters. */
  readonly query: URLSearchParams;
  readonly headers: {
    /**
     * Returns the value of a header, or `null` if there is none. Multiple values are joined by commas. The name is
     * case-insensitive.
     */
    get(name: string): string | null;
  };
}

/** Fixed secrets, or a function that is called for each delivery before the delivery is verified. */
export type ReceiverSecret = Secrets | SecretFunction<[request: SecretRequest]>;

export type SecretOfRequest = readonly Secret[] | ((request: WebhookRequest) => SecretFunction);

/** A function is limited to `timeoutMs`, because anyone can make the receiver call it. */
export function readSecret(
  secret: ReceiverSecret,
  { runtime, timeoutMs }: { readonly runtime: Runtime; readonly timeoutMs: number },
): SecretOfRequest {
  if (typeof secret !== 'function')
    return toSecrets(secret).map((each) => (typeof each === 'string' ? each : new Uint8Array(each)));
  const onTimeUp = () => {
    throw new Error(`The function returned no secret within ${timeoutMs} ms.`);
  };
  return (request) => () => {
    const answer = secret(toSecretRequest(request));
    return isPromise(answer) ? timeLimit(answer, timeoutMs, onTimeUp, runtime) : answer;
  };
}

function toSecretRequest(request: WebhookRequest): SecretRequest {
  // Some platforms pass an absolute URL. Clients never send the fragment (#).
  const [target = ''] = (request.url ?? '').replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '').split('#', 1);
  const end = target.indexOf('?');
  return Object.freeze({
    path: end === -1 ? target : target.slice(0, end),
    query: new URLSearchParams(end === -1 ? '' : target.slice(end)),
    headers: Object.freeze({ get: (name: string) => request.header(name) ?? null }),
  });
}
