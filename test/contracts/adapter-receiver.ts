import {
  createReceiver,
  PermanentError,
  type Receiver,
  type ReceiverOptions,
  type SecretRequest,
  type StandardSchema,
  type UnknownPayload,
  withPayload,
} from 'stablehooks';

/** The receiver accepts both secrets, as during a rotation. */
export const CONTRACT_SECRETS = ['contract-secret-old', 'contract-secret-new'] as const;

/** A delivery with this header is signed by {@link requestSecret}; its value `unknown` has no secret. */
export const CONTRACT_TENANT_HEADER = 'X-Contract-Tenant';

/** Derives a secret from everything that a secret function receives. */
export function requestSecret({ path, query, headers }: SecretRequest): string {
  const parameters = [...query].map(([name, value]) => `${name}=${value}`).sort();
  return JSON.stringify([path, parameters, headers.get(CONTRACT_TENANT_HEADER.toUpperCase())]);
}

/** Larger than the default limits of frameworks (100 kB, 1 MiB), so the cases see the receiver's limit and not theirs. */
export const CONTRACT_MAX_BODY_BYTES = 1_300_000;

/** A string in every error and payload of the contract. No reply may contain it. */
export const CONTRACT_MARKER = 'marker-that-no-response-must-contain';

/** Much longer than the slow behaviours take on a busy machine. */
const HANDLER_TIMEOUT_MS = 1_000;
const SLOW_MS = 150;

/** Much longer than a body takes on the loopback of a busy machine. */
const BODY_TIMEOUT_MS = 3_000;

/** The value of `payload.behaviour`, which the handler of `transfer.settled` follows. */
export type HandlerBehaviour = 'succeed' | 'hold' | 'release' | keyof typeof BEHAVIOURS;

const fail = (error: unknown) => {
  throw error;
};

const BEHAVIOURS = {
  throw: () => fail(new Error(CONTRACT_MARKER)),
  'throw-string': () => fail(CONTRACT_MARKER),
  'throw-undefined': () => fail(undefined),
  'throw-once': (attempt) => (attempt === 1 ? fail(new Error(CONTRACT_MARKER)) : undefined),
  'throw-permanent': () => fail(new PermanentError(CONTRACT_MARKER)),
  slow: () => new Promise((resolve) => setTimeout(resolve, SLOW_MS)),
  'reject-after-timeout': (_attempt, signal) =>
    new Promise((_, reject) => {
      const fail = () => reject(new Error(CONTRACT_MARKER));
      signal.addEventListener('abort', () => setTimeout(fail, SLOW_MS / 5));
    }),
} as const satisfies Record<string, (attempt: number, signal: AbortSignal) => void | Promise<void>>;

/** Accepts a payload whose `amount` is a string. */
const amountSchema: StandardSchema<UnknownPayload> = {
  '~standard': {
    validate: (value) => {
      const payload = value as UnknownPayload;
      if (typeof payload['amount'] === 'string') return { value: payload };
      return { issues: [{ message: CONTRACT_MARKER, path: ['amount'] }] };
    },
  },
};

/**
 * Creates the receiver that {@link adapterContract} tests an adapter with.
 *
 * Mount it with your adapter, for every HTTP method. It accepts bodies of up to 1.3 MB: raise a lower limit of the
 * framework. Its payloads determine the behaviour of its handlers. It needs no module of Node, so it runs in servers without
 * `node:http`.
 *
 * @example
 * ```ts
 * const app = express();
 * app.all('/hooks', toExpressHandler(createContractReceiver()));
 * ```
 */
export function createContractReceiver(): Receiver {
  return createReceiver(contractReceiverOptions());
}

/** The options of {@link createContractReceiver}, for a framework that creates the receiver itself. */
export function contractReceiverOptions(): ReceiverOptions {
  /** Ends a handler with the behaviour `hold`, by the id of its event. An event with `release` names that id. */
  const held = new Map<string, () => void>();
  return {
    secret(request) {
      const tenant = request.headers.get(CONTRACT_TENANT_HEADER);
      if (tenant === 'unknown') return null;
      return tenant === null ? CONTRACT_SECRETS : requestSecret(request);
    },
    maxBodyBytes: CONTRACT_MAX_BODY_BYTES,
    bodyTimeoutMs: BODY_TIMEOUT_MS,
    handlerTimeoutMs: HANDLER_TIMEOUT_MS,
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'accept.confirmed': withPayload(amountSchema, () => undefined),
      'transfer.settled': async ({ id, payload }, { attempt, signal }) => {
        if ('polluted' in Object.prototype) throw new Error('A payload changed Object.prototype.');
        const behaviour = String(payload['behaviour']);
        if (behaviour === 'hold') await new Promise<void>((resolve) => held.set(id, resolve));
        if (behaviour === 'release') held.get(String(payload['held']))?.();
        if (isHandlerBehaviour(behaviour)) await BEHAVIOURS[behaviour](attempt, signal);
      },
    },
    onOutcome: ({ event }) => {
      if (event?.payload['observer'] === 'throw') throw CONTRACT_MARKER;
    },
  };
}

function isHandlerBehaviour(name: string): name is keyof typeof BEHAVIOURS {
  return Object.hasOwn(BEHAVIOURS, name);
}
