/** The receivers that inputs are sent to: each takes signatures in its own format, or ends deliveries in its own way. */
import {
  memoryInbox,
  PermanentError,
  type Receiver,
  type ReceiverOptions,
  RetryLater,
  type RuntimeOptions,
} from 'stablehooks';
import type { Format } from './expected.js';
import { Draw } from './random.js';

interface Behaviour extends Partial<Format> {
  readonly header?: string;
  /** How many secrets it has. @default 1 */
  readonly secrets?: number;
  /** How it gets its secrets. @default 'fixed' */
  readonly source?: 'fixed' | 'function' | 'unknown sender' | 'fails';
  /** What its handlers do. @default 'return' */
  readonly handlers?: 'return' | 'resolve' | 'throw' | 'throw PermanentError' | 'throw RetryLater' | 'none';
  /** When a delivery is answered. @default 'handled' */
  readonly answered?: 'handled' | 'recorded' | 'enqueued';
  readonly isClosed?: true;
}

const BEHAVIOURS = {
  'any encoding': {},
  'hex with a prefix': { encoding: 'hex', prefix: 'sha256=', header: 'X-Hub-Signature-256' },
  'base64 with a prefix': { encoding: 'base64', prefix: 'v1,', handlers: 'resolve' },
  base64url: { encoding: 'base64url', secrets: 2, source: 'function' },
  'three secrets': { secrets: 3, handlers: 'resolve' },
  'answers first': { answered: 'recorded' },
  'unknown sender': { source: 'unknown sender' },
  'secret function fails': { source: 'fails' },
  'handlers throw': { handlers: 'throw' },
  'handlers throw PermanentError': { handlers: 'throw PermanentError' },
  'handlers throw RetryLater': { handlers: 'throw RetryLater' },
  'no handlers': { handlers: 'none' },
  queue: { answered: 'enqueued' },
  closed: { isClosed: true },
} as const satisfies Readonly<Record<string, Behaviour>>;

export type VariantName = keyof typeof BEHAVIOURS;

/** Every receiver. Half of the inputs go to those that accept what is valid. */
export const VARIANT_NAMES = Object.keys(BEHAVIOURS) as readonly VariantName[];

/** A receiver of a batch of inputs: how it behaves, and its secrets. */
export interface Variant extends Required<Omit<Behaviour, 'secrets' | 'encoding' | 'isClosed'>> {
  readonly name: VariantName;
  readonly encoding: Format['encoding'];
  readonly secrets: readonly (string | Uint8Array)[];
  readonly isClosed: boolean;
}

/** The streams of a batch's secrets, apart from those of its inputs. */
const SECRETS_STREAM = 1_000;

/** The receivers of one batch. Their secrets are random, so that one that leaks is recognized. */
export function variantsOf(seed: number, batch: number): readonly Variant[] {
  return VARIANT_NAMES.map((name, at) => {
    const behaviour: Behaviour = BEHAVIOURS[name];
    const draw = new Draw(seed, batch, SECRETS_STREAM + at);
    const kinds = [() => draw.marker(), () => draw.bytes(32), () => `${draw.marker()}-\u00fc\u{1f511}`];
    return {
      name,
      header: behaviour.header ?? 'X-SERVICE-Signature',
      encoding: behaviour.encoding,
      prefix: behaviour.prefix ?? '',
      source: behaviour.source ?? 'fixed',
      handlers: behaviour.handlers ?? 'return',
      secrets: kinds.slice(0, behaviour.secrets ?? 1).map((make) => make()),
      answered: behaviour.answered ?? 'handled',
      isClosed: behaviour.isClosed ?? false,
    };
  });
}

/** The largest body that the receivers take. */
export const MAX_BODY_BYTES = 32_768;

/** What the receivers did since the last input, beside their outcomes. */
export interface Seen {
  readonly handled: unknown[];
  /** The events that the inbox was asked to claim, record or ignore, as the JSON that it would store says. */
  readonly recorded: unknown[];
  /** The events that the queue got, as their JSON says. */
  readonly enqueued: unknown[];
  readonly lines: string[];
}

/** What makes a receiver. A test of the fuzzer itself gives one with a fault. */
export type MakeReceiver = (options: ReceiverOptions) => Receiver;

export async function openVariant(
  variant: Variant,
  {
    make,
    seen,
    runtime,
  }: { readonly make: MakeReceiver; readonly seen: Seen; readonly runtime: RuntimeOptions },
): Promise<Receiver> {
  const { secrets, source, handlers, answered } = variant;
  const run = (event: unknown): void | Promise<void> => {
    seen.handled.push(event);
    if (handlers === 'throw') throw new Error('the handler of the fuzzer throws');
    if (handlers === 'throw PermanentError') throw new PermanentError('the handler of the fuzzer gives up');
    if (handlers === 'throw RetryLater') {
      throw new RetryLater({ afterMs: 1_000, reason: 'the handler of the fuzzer is not ready' });
    }
    if (handlers === 'resolve') return Promise.resolve();
  };
  const secretOf = async () => {
    if (source === 'fails') throw new Error('the secret function of the fuzzer fails');
    return source === 'unknown sender' ? null : secrets;
  };
  const log = (line: string) => void seen.lines.push(line);
  const stored = memoryInbox({ runtime });
  const receiver = make({
    secret: source === 'fixed' ? secrets : secretOf,
    signature: { header: variant.header, encoding: variant.encoding, prefix: variant.prefix },
    maxBodyBytes: MAX_BODY_BYTES,
    handlers:
      handlers === 'none'
        ? {}
        : {
            'accept.confirmed': run,
            'transfer.settled': run,
            'transfer.failed': run,
            'redeem.completed': run,
            'redeem.failed': run,
          },
    inbox: {
      ...stored,
      // It outlives the receivers of the fuzzer as a durable inbox outlives a process.
      durable: answered !== 'handled',
      claim(event, options) {
        seen.recorded.push(parsed(event, options.json));
        return stored.claim(event, options);
      },
      ignore(events, options) {
        seen.recorded.push(...events.map((event, at) => parsed(event, options.json?.[at])));
        return stored.ignore(events, options);
      },
      record(events, options) {
        seen.recorded.push(...events.map((event, at) => parsed(event, options.json?.[at])));
        return stored.record(events, options);
      },
    },
    ...(answered === 'enqueued' && {
      queue: {
        enqueue: async (event, options) => void seen.enqueued.push(parsed(event, options?.json)),
      },
    }),
    ...(answered === 'recorded' && { answer: answered }),
    logger: { warn: log, error: log },
    runtime,
  });
  if (variant.isClosed) await receiver.close();
  return receiver;
}

/** What a store gives back for an event: its JSON as it arrived, parsed; without it, the event. */
const parsed = (event: unknown, json: string | undefined): unknown =>
  json === undefined ? event : JSON.parse(json);
