import { SIGNATURE_ENCODINGS, SIGNATURE_HEADER, type SignatureEncoding } from 'stablehooks';
import * as z from 'zod/mini';
import type { Random } from './random.js';
import { check, closedObject, nonEmptyString, oneOf, SandboxError, secret } from './validation.js';

/** An endpoint function in this process, such as the handler that `toFetchHandler` returns. */
export type EndpointFetch = (request: Request) => Response | Promise<Response>;

/** Where to deliver events: a URL, or a function in this process. */
export interface EndpointInput {
  /** The URL of the endpoint. Required unless you pass `fetch`. @default 'http://endpoint.invalid/' with `fetch` */
  readonly url?: string | undefined;
  /** The function that sends or handles the deliveries. @default the global fetch */
  readonly fetch?: EndpointFetch | undefined;
  /** The secret to sign with. @default the sandbox's `secret` */
  readonly secret?: string | undefined;
  /** The encoding of the signature. @default 'hex' */
  readonly encoding?: SignatureEncoding | undefined;
  /** The name of the signature header. @default 'X-SERVICE-Signature' */
  readonly signatureHeader?: string | undefined;
}

/** An endpoint of the sandbox, without its secret. */
export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly encoding: SignatureEncoding;
  readonly signatureHeader: string;
}

export interface Target extends Endpoint {
  readonly secret: string;
  /** `undefined` means the global fetch. */
  readonly fetch: EndpointFetch | undefined;
}

/** The endpoints of a sandbox. You can change them at any time. */
export interface SandboxEndpoints {
  /** Adds an endpoint. The endpoint receives all later events. @throws {SandboxError} `ERR_SANDBOX_INPUT` */
  add(input: EndpointInput): Endpoint;
  list(): readonly Endpoint[];
  /** Removes an endpoint. Its pending deliveries become `exhausted`. @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` */
  remove(id: string): void;
  /** Replaces the secret with which later attempts are signed. @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` */
  rotateSecret(id: string, secret: string): Endpoint;
}

const url = nonEmptyString.check(
  z.refine((value) => {
    if (!URL.canParse(value)) return false;
    const { protocol, username, password } = new URL(value);
    // `fetch` rejects URLs with a password, and the feed would show the password.
    return /^https?:$/.test(protocol) && username === '' && password === '';
  }, 'must be an http or https URL without a user name or password'),
);
export const endpointInput = closedObject({
  url: z.optional(url),
  fetch: z.optional(z.custom<EndpointFetch>((value) => typeof value === 'function', 'must be a function')),
  secret: z.optional(secret),
  encoding: z._default(oneOf(SIGNATURE_ENCODINGS), 'hex'),
  signatureHeader: z._default(
    nonEmptyString.check(z.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'must be a valid header name')),
    SIGNATURE_HEADER,
  ),
}).check(
  z.refine(({ url, fetch }) => url !== undefined || fetch !== undefined, {
    path: ['url'],
    error: 'is missing: an endpoint needs a url, or a fetch function',
  }),
);
export const resendInput = closedObject({
  url: z.optional(url),
  body: z.optional(
    z.union([z.string(), z.instanceof(Uint8Array)], { error: 'must be a string or a Uint8Array' }),
  ),
});
export const secretInput = closedObject({ secret });

export type Endpoints = ReturnType<typeof createEndpoints>;

export function createEndpoints(
  random: Random,
  settings: {
    readonly secret: string;
    readonly endpoints: readonly z.output<typeof endpointInput>[];
  },
) {
  const targets = new Map<string, Target>();
  let count = 0;

  function put(endpoint: Endpoint & Pick<EndpointInput, 'secret' | 'fetch'>): Target {
    const { secret = settings.secret, fetch } = endpoint;
    const target = { ...toEndpoint(endpoint), secret, fetch };
    targets.set(target.id, target);
    return target;
  }

  function add({ url = 'http://endpoint.invalid/', ...rest }: z.output<typeof endpointInput>): Target {
    count += 1;
    return put({ id: `end_${random.hex(`endpoint:${count}`, 16)}`, url, ...rest });
  }

  function get(id: string): Target {
    const target = targets.get(id);
    if (target !== undefined) return target;
    throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'This endpoint does not exist. Add it first.');
  }

  function reset(): void {
    targets.clear();
    count = 0;
    for (const input of settings.endpoints) add(input);
  }

  reset();
  return {
    add: (input: EndpointInput): Target => add(check(endpointInput, input)),
    get,
    find: (id: string): Target | undefined => targets.get(id),
    list: (): readonly Target[] => [...targets.values()],
    remove(id: string): void {
      targets.delete(get(id).id);
    },
    rotateSecret(id: string, secret: string): Target {
      return put({ ...get(id), ...check(secretInput, { secret }) });
    },
    reset,
  };
}

/** Drops the secret. */
export function toEndpoint({ id, url, encoding, signatureHeader }: Endpoint): Endpoint {
  return { id, url, encoding, signatureHeader };
}
