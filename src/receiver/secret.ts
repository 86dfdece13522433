/** The `secret` option of a receiver: fixed secrets, or a function of the request. */
import { orTimeout, type Runtime } from '../core/runtime.js';
import { type SecretFunction, type SecretSource, type Secrets, toSecrets } from '../core/signature.js';

/**
 * What a `secret` function sees of a delivery that is not verified yet: everything in it is the sender's claim. It
 * can choose whose secret must match, and nothing else.
 */
export interface SecretRequest {
  /**
   * The path as the sender requested it, before a framework removed a prefix that it mounts the receiver at. It is not
   * decoded. `''` where there is none, as in SQS, or where the adapter does not hand it in.
   */
  readonly path: string;
  /** The parameters after the `?`, decoded. */
  readonly query: URLSearchParams;
  readonly headers: {
    /** The value of a header, several joined by a comma; `null` when there is none. The name is case-insensitive. */
    get(name: string): string | null;
  };
}

/** Fixed secrets, or a function that is called at each delivery, before anything of it is trusted. */
export type ReceiverSecret = Secrets | SecretFunction<[request: SecretRequest]>;

/** The members of a request that a `secret` function sees. */
interface RequestHead {
  readonly url?: string | undefined;
  header(name: string): string | null | undefined;
}

/** How long to wait for a function that gives a secret. */
interface Limit {
  readonly runtime: Runtime;
  readonly timeoutMs: number;
}

/** Fixed secrets, or the function that gives the secrets of a request. */
export type SecretOfRequest = Secrets | ((request: RequestHead) => SecretSource);

/**
 * Reads the option. Fixed secrets are copied, so that later changes to them do not change the receiver. A function is
 * waited for at most `timeoutMs`, because whoever sends a delivery makes the receiver ask.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when fixed secrets are missing, empty, padded or of another type.
 */
export function readSecret(secret: ReceiverSecret, limit: Limit): SecretOfRequest {
  if (typeof secret !== 'function') return copySecrets(secret);
  return (request) => () => inTime(secret(toSecretRequest(request)), limit);
}

/** Checked copies of secrets. @throws {ConfigError} `ERR_CONFIG_INVALID` */
export function copySecrets(secrets: Secrets): Secrets {
  return toSecrets(secrets).map((secret) => (typeof secret === 'string' ? secret : new Uint8Array(secret)));
}

function inTime<Answer>(
  answer: Answer | Promise<Answer>,
  { runtime, timeoutMs }: Limit,
): Answer | Promise<Answer> {
  // As of a promise library, or of another realm: no instance of Promise.
  if (typeof (answer as Partial<PromiseLike<Answer>> | null | undefined)?.then !== 'function') return answer;
  return orTimeout(answer as PromiseLike<Answer>, {
    runtime,
    ms: timeoutMs,
    toError: () => new Error(`It gave no secret within ${timeoutMs} ms.`),
  });
}

function toSecretRequest(request: RequestHead): SecretRequest {
  // Some platforms give an absolute URL. What follows a # is never sent.
  const [target = ''] = (request.url ?? '').replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '').split('#', 1);
  const end = target.indexOf('?');
  return Object.freeze({
    path: end === -1 ? target : target.slice(0, end),
    query: new URLSearchParams(end === -1 ? '' : target.slice(end)),
    headers: Object.freeze({ get: (name: string) => request.header(name) ?? null }),
  });
}
