/** Endpoints: where deliveries go, and the secret and encoding that each is signed with. */
import * as z from 'zod/mini';
import { SIGNATURE_HEADER } from '../core/signature.js';
import { oneOf, secret, text } from './fields.js';
import { check, SandboxError } from './problem.js';
import type { Random } from './random.js';

const ENCODINGS = ['hex', 'base64', 'base64url'] as const;

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
  readonly encoding?: (typeof ENCODINGS)[number] | undefined;
  /** @default 'X-SERVICE-Signature' */
  readonly signatureHeader?: string | undefined;
}

/** An endpoint, without its secret. */
export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly encoding: (typeof ENCODINGS)[number];
  readonly signatureHeader: string;
}

/** An endpoint, as deliveries need it. */
export interface Target extends Endpoint {
  readonly secret: string;
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
  readonly endpoints: readonly Omit<Target, 'fetch'>[];
}

const url = text.check(
  z.refine(
    (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
    'must be an http or https URL',
  ),
);
const endpointInput = z.strictObject(
  {
    url: z.optional(url),
    fetch: z.optional(z.custom<EndpointFetch>((value) => typeof value === 'function', 'must be a function')),
    secret: z.optional(secret),
    encoding: z._default(oneOf(ENCODINGS), 'hex'),
    signatureHeader: z._default(
      text.check(z.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'must be the name of a header')),
      SIGNATURE_HEADER,
    ),
  },
  'must be a JSON object',
);
const secretInput = z.object({ secret });

export type Endpoints = ReturnType<typeof createEndpoints>;

export function createEndpoints(options: {
  readonly random: Random;
  readonly secret: string;
  readonly initial: readonly EndpointInput[];
}) {
  const { random, secret: defaultSecret, initial } = options;
  let targets = new Map<string, Target>();
  let count = 0;

  function add(input: EndpointInput): Target {
    const { secret = defaultSecret, fetch, url, encoding, signatureHeader } = check(endpointInput, input);
    if (url === undefined && fetch === undefined) {
      const errors = [{ field: 'url', detail: 'is missing' }];
      throw new SandboxError('ERR_SANDBOX_INPUT', 'An endpoint needs a url, or a fetch function.', {
        errors,
      });
    }
    count += 1;
    const id = `end_${random.hex(`endpoint:${count}`, { digits: 16 })}`;
    const target = { id, url: url ?? 'http://endpoint.invalid/', encoding, signatureHeader, secret, fetch };
    targets.set(id, target);
    return target;
  }

  function get(id: string): Target {
    const target = targets.get(id);
    if (target !== undefined) return target;
    throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'There is no endpoint of this id. Add it first.');
  }

  return {
    add,
    get,
    find: (id: string): Target | undefined => targets.get(id),
    list: (): readonly Target[] => [...targets.values()],
    remove(id: string): void {
      targets.delete(get(id).id);
    },
    rotateSecret(id: string, secret: string): Target {
      const target = { ...get(id), ...check(secretInput, { secret }) };
      targets.set(id, target);
      return target;
    },

    save: (): EndpointsState => ({
      count,
      endpoints: [...targets.values()]
        .filter(({ fetch }) => fetch === undefined)
        .map(({ fetch: _, ...endpoint }) => endpoint),
    }),
    load(state: EndpointsState | undefined): void {
      targets = new Map(state?.endpoints.map((endpoint) => [endpoint.id, { ...endpoint, fetch: undefined }]));
      count = state?.count ?? 0;
      // What was given at creation is there after a reset; of a state file only functions are missing.
      for (const input of initial) if (state === undefined || input.fetch !== undefined) add(input);
    },
  };
}

/** What may be shown of an endpoint: not its secret. */
export function toEndpoint({ id, url, encoding, signatureHeader }: Target): Endpoint {
  return { id, url, encoding, signatureHeader };
}
