/** The receiver that the adapter contract drives: each delivery's payload says what its handler does. */
import { PermanentError } from '../core/errors.js';
import type { StandardSchema, UnknownPayload } from '../core/events.js';
import { createReceiver, type Receiver } from '../receiver/receiver.js';

/** Both are accepted, as while one replaces the other. */
export const CONTRACT_SECRETS = ['contract-secret-old', 'contract-secret-new'] as const;

/** Above what frameworks allow by themselves (100 kB, 1 MiB), to tell their limits from the receiver's. */
export const CONTRACT_MAX_BODY_BYTES = 1_300_000;

/** Stands in every error, payload and header value that a reply must not repeat. */
export const CONTRACT_MARKER = 'marker-that-no-reply-may-hold';

const HANDLER_TIMEOUT_MS = 300;

/** What `payload.behaviour` asks of the handler of `transfer.settled`. */
export type Behaviour = 'succeed' | keyof typeof BEHAVIOURS;

const BEHAVIOURS = {
  throw: () => {
    throw new Error(CONTRACT_MARKER);
  },
  'throw-text': () => {
    throw CONTRACT_MARKER;
  },
  'throw-undefined': () => {
    throw undefined;
  },
  'throw-once': (attempt) => {
    if (attempt === 1) throw new Error(CONTRACT_MARKER);
  },
  'give-up': () => {
    throw new PermanentError(CONTRACT_MARKER);
  },
  'take-long': () => new Promise((resolve) => setTimeout(resolve, HANDLER_TIMEOUT_MS / 2)),
  'never-end': () => new Promise(() => undefined),
  'reject-late': () =>
    new Promise((_, reject) => setTimeout(() => reject(new Error(CONTRACT_MARKER)), HANDLER_TIMEOUT_MS + 20)),
} as const satisfies Record<string, (attempt: number) => void | Promise<void>>;

/** Fits a payload with an `amount` that is text. */
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
 * Makes the receiver to mount, for every method, at the URL that the adapter contract is run against.
 * Apart from the contract itself, so that a server without node:http can load it.
 */
export function createContractReceiver(): Receiver {
  return createReceiver({
    secret: CONTRACT_SECRETS,
    maxBodyBytes: CONTRACT_MAX_BODY_BYTES,
    handlerTimeoutMs: HANDLER_TIMEOUT_MS,
    payloads: { 'accept.confirmed': amountSchema },
    handlers: {
      'accept.confirmed': () => undefined,
      'transfer.settled': async ({ payload }, { attempt }) => {
        if ('polluted' in Object.prototype) throw new Error('A payload reached Object.prototype.');
        const behaviour = String(payload['behaviour']);
        if (isBehaviour(behaviour)) await BEHAVIOURS[behaviour](attempt);
      },
    },
    onOutcome: ({ event }) => {
      if (event?.payload['observer'] === 'throw') throw CONTRACT_MARKER;
    },
  });
}

function isBehaviour(name: string): name is keyof typeof BEHAVIOURS {
  return Object.hasOwn(BEHAVIOURS, name);
}
