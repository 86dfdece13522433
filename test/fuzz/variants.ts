/** The receivers that inputs are sent to: each takes signatures in its own format, or ends deliveries in its own way. */
import {
  EVENT_TYPES,
  memoryInbox,
  PermanentError,
  type Receiver,
  type ReceiverOptions,
  RetryLater,
  SIGNATURE_HEADER,
} from 'stablehooks';
import type { Format } from './expected.js';

export interface Variant extends Format {
  readonly header: string;
  readonly secrets: readonly (string | Uint8Array)[];
  /** How it gets its secrets. */
  readonly source: 'fixed' | 'function' | 'unknown sender' | 'fails';
  /** What its handlers do. */
  readonly handlers: 'return' | 'resolve' | 'throw' | 'throw PermanentError' | 'throw RetryLater' | 'none';
  /** When a delivery is answered. */
  readonly answered: 'handled' | 'recorded' | 'enqueued';
  readonly isClosed: boolean;
}

/** They occur nowhere by accident, so one that leaks is recognized. */
const SECRETS = [
  'mark6s9k2w',
  Uint8Array.from({ length: 32 }, (_, at) => (at * 73 + 19) % 256),
  'mark4h-\u00fc',
];

const PLAIN: Variant = {
  header: SIGNATURE_HEADER,
  encoding: undefined,
  prefix: '',
  secrets: SECRETS.slice(0, 1),
  source: 'fixed',
  handlers: 'return',
  answered: 'handled',
  isClosed: false,
};

/** Receivers that accept what is valid. */
const ACCEPTING = {
  'any encoding': {},
  'hex with a prefix': { encoding: 'hex', prefix: 'sha256=', header: 'X-Hub-Signature-256' },
  'base64 with a prefix': { encoding: 'base64', prefix: 'v1,', handlers: 'resolve' },
  base64url: { encoding: 'base64url', secrets: SECRETS.slice(0, 2), source: 'function' },
  'three secrets': { secrets: SECRETS, handlers: 'resolve' },
  'answers first': { answered: 'recorded' },
} satisfies Readonly<Record<string, Partial<Variant>>>;

const ALL = {
  ...ACCEPTING,
  'unknown sender': { source: 'unknown sender' },
  'secret function fails': { source: 'fails' },
  'handlers throw': { handlers: 'throw' },
  'handlers throw PermanentError': { handlers: 'throw PermanentError' },
  'handlers throw RetryLater': { handlers: 'throw RetryLater' },
  'no handlers': { handlers: 'none' },
  queue: { answered: 'enqueued' },
  closed: { isClosed: true },
} satisfies Readonly<Record<string, Partial<Variant>>>;

export type VariantName = keyof typeof ALL;

export const VARIANT_NAMES = Object.keys(ALL) as VariantName[];

/** The names to choose from: those that accept what is valid twice. */
export const VARIANT_CHOICES = [...VARIANT_NAMES, ...(Object.keys(ACCEPTING) as VariantName[])];

export const variantOf = (name: VariantName): Variant => ({ ...PLAIN, ...ALL[name] });

/** The largest body that the receivers take. */
export const MAX_BODY_BYTES = 32_768;

/** What a receiver did since the last input, beside its outcome. Stored events are what their JSON says. */
export interface Seen {
  readonly handled: unknown[];
  readonly recorded: unknown[];
  readonly enqueued: unknown[];
  readonly lines: string[];
}

/** What makes a receiver. A test of the fuzzer itself gives one with a fault. */
export type MakeReceiver = (options: ReceiverOptions) => Receiver;

export async function openVariant(variant: Variant, make: MakeReceiver, seen: Seen): Promise<Receiver> {
  const { secrets, source, handlers, answered, header, encoding, prefix } = variant;
  const run = (event: unknown): void | Promise<void> => {
    seen.handled.push(event);
    if (handlers === 'throw') throw new Error('the handler of the fuzzer throws');
    if (handlers === 'throw PermanentError') throw new PermanentError('the handler of the fuzzer gives up');
    if (handlers === 'throw RetryLater') throw new RetryLater({ afterMs: 1_000, reason: 'the fuzzer' });
    if (handlers === 'resolve') return Promise.resolve();
  };
  const secretOf = async () => {
    if (source === 'fails') throw new Error('the secret function of the fuzzer fails');
    return source === 'unknown sender' ? null : secrets;
  };
  const log = (line: string) => void seen.lines.push(line);
  const stored = (event: unknown, json: string | undefined) =>
    json === undefined ? event : JSON.parse(json);
  const inbox = memoryInbox();
  const receiver = make({
    secret: source === 'fixed' ? secrets : secretOf,
    signature: { header, encoding, prefix },
    maxBodyBytes: MAX_BODY_BYTES,
    // Every body but the one that never ends is there immediately.
    bodyTimeoutMs: 1,
    handlers: handlers === 'none' ? {} : Object.fromEntries(EVENT_TYPES.map((type) => [type, run])),
    inbox: {
      ...inbox,
      // It outlives the receivers of the fuzzer as a durable inbox outlives a process.
      durable: answered !== 'handled',
      claim(event, options) {
        seen.recorded.push(stored(event, options.json));
        return inbox.claim(event, options);
      },
      ignore(events, options) {
        seen.recorded.push(...events.map((event, at) => stored(event, options.json?.[at])));
        return inbox.ignore(events, options);
      },
      record(events, options) {
        seen.recorded.push(...events.map((event, at) => stored(event, options.json?.[at])));
        return inbox.record(events, options);
      },
    },
    ...(answered === 'enqueued' && {
      queue: { enqueue: async (event, options) => void seen.enqueued.push(stored(event, options?.json)) },
    }),
    ...(answered === 'recorded' && { answer: answered }),
    logger: { warn: log, error: log },
  });
  if (variant.isClosed) await receiver.close();
  return receiver;
}
