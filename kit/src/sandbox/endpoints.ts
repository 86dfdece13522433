/** Endpoints: where deliveries go, and the secret and encoding that each is signed with. */

import { SIGNATURE_ENCODINGS, SIGNATURE_HEADER, type SignatureEncoding } from 'stablehooks';
import * as z from 'zod/mini';
import { oneOf, secret, text } from './fields.js';
import { check, SandboxError } from './problem.js';
import type { Random } from './random.js';

/** An endpoint in this process, such as what `toFetchHandler` makes. */
export type EndpointFetch = (request: Request) => Response | Promise<Response>;

/** Where to deliver: a URL, or a function in this process. */
export interface EndpointInput {
  /** Needed unless `fetch` is given. @default 'http://endpoint.invalid/' with `fetch` */
  readonly url?: string | undefined;
  /** @default the global fetch */
  readonly fetch?: EndpointFetch | undefined;
  /** @default the sandbox's `secret` */
  readonly secret?: string | undefined;
  /** How the signature is written. @default 'hex' */
  readonly encoding?: SignatureEncoding | undefined;
  /** @default 'X-SERVICE-Signature' */
  readonly signatureHeader?: string | undefined;
}

/** An endpoint, without its secret. */
export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly encoding: SignatureEncoding;
  readonly signatureHeader: string;
}

/** An endpoint, as deliveries need it. */
export interface Target extends Endpoint {
  readonly secret: string;
  /** Whether the secret is its own, and not the sandbox's. */
  readonly hasOwnSecret: boolean;
  /** `undefined` is the global fetch. */
  readonly fetch: EndpointFetch | undefined;
}

/** The endpoints of a sandbox: added, removed and given new secrets at any time. */
export interface SandboxEndpoints {
  /** Adds an endpoint; events from now on are delivered to it. @throws {SandboxError} `ERR_SANDBOX_INPUT` */
  add(input: EndpointInput): Endpoint;
  list(): readonly Endpoint[];
  /** Removes it and gives up what is pending for it. @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` */
  remove(id: string): void;
  /** Signs every attempt from now on with another secret. @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` */
  rotateSecret(id: string, secret: string): Endpoint;
}

/** What {@link createEndpoints} keeps in a state file: functions cannot be kept. */
export interface EndpointsState {
  readonly count: number;
  readonly endpoints: readonly (Endpoint & { readonly secret?: string | undefined })[];
}

const url = text.check(
  z.refine((value) => {
    if (!URL.canParse(value)) return false;
    const { protocol, username, password } = new URL(value);
    // No request can be made to a URL with a password, and the URL is shown.
    return /^https?:$/.test(protocol) && username === '' && password === '';
  }, 'must be an http or https URL without a user or password'),
);
const endpointFields = z.strictObject(
  {
    url: z.optional(url),
    fetch: z.optional(z.custom<EndpointFetch>((value) => typeof value === 'function', 'must be a function')),
    secret: z.optional(secret),
    encoding: z._default(oneOf(SIGNATURE_ENCODINGS), 'hex'),
    signatureHeader: z._default(
      text.check(z.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'must be the name of a header')),
      SIGNATURE_HEADER,
    ),
  },
  'must be a JSON object',
);
const endpointInput = endpointFields.check(
  z.refine(({ url, fetch }) => url !== undefined || fetch !== undefined, {
    path: ['url'],
    error: 'is missing: an endpoint needs a url, or a fetch function',
  }),
);
const secretInput = z.object({ secret });

export type Endpoints = ReturnType<typeof createEndpoints>;

export function createEndpoints(options: {
  readonly random: Random;
  readonly secret: string;
  readonly initial: readonly EndpointInput[];
}) {
  const { random, secret: defaultSecret } = options;
  const initial = options.initial.map((input) => check(endpointInput, input));
  let targets = new Map<string, Target>();
  let count = 0;

  function put(endpoint: Endpoint & Pick<EndpointInput, 'secret' | 'fetch'>): Target {
    const { secret = defaultSecret, fetch } = endpoint;
    const target = { ...toEndpoint(endpoint), secret, hasOwnSecret: endpoint.secret !== undefined, fetch };
    targets.set(target.id, target);
    return target;
  }

  function add({ url = 'http://endpoint.invalid/', ...rest }: z.output<typeof endpointInput>): Target {
    count += 1;
    return put({ id: `end_${random.hex(`endpoint:${count}`, { digits: 16 })}`, url, ...rest });
  }

  function get(id: string): Target {
    const target = targets.get(id);
    if (target !== undefined) return target;
    throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'There is no endpoint of this id. Add it first.');
  }

  return {
    add: (input: EndpointInput): Target => add(check(endpointInput, input)),
    find: (id: string): Target | undefined => targets.get(id),
    list: (): readonly Target[] => [...targets.values()],
    remove(id: string): void {
      targets.delete(get(id).id);
    },
    rotateSecret(id: string, secret: string): Target {
      return put({ ...get(id), ...check(secretInput, { secret }) });
    },

    save: (): EndpointsState => ({
      count,
      endpoints: [...targets.values()]
        .filter(({ fetch }) => fetch === undefined)
        .map((one) => ({ ...toEndpoint(one), ...(one.hasOwnSecret && { secret: one.secret }) })),
    }),
    load(state: EndpointsState | undefined): void {
      targets = new Map();
      count = state?.count ?? 0;
      for (const endpoint of state?.endpoints ?? []) put(endpoint);
      const saved = new Set(state?.endpoints.map(({ url }) => url));
      // What was given at creation is always there; a state file cannot hold functions.
      for (const input of initial) if (input.fetch !== undefined || !saved.has(input.url ?? '')) add(input);
    },
  };
}

/** What may be shown of an endpoint: not its secret. */
export function toEndpoint({ id, url, encoding, signatureHeader }: Endpoint): Endpoint {
  return { id, url, encoding, signatureHeader };
}
