import { randomBytes } from 'node:crypto';
import { isEventType, SIGNATURE_ENCODINGS, type SignatureEncoding, sign } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { describeAnswer, type EndpointAnswer, outcomeOf } from '../io/answer.js';
import { type DeliveryRequest, deliver } from '../io/deliver.js';
import { unreachableError, usageError } from '../io/errors.js';
import { toPlain } from '../io/output.js';
import type { Settings } from '../io/settings.js';

/** No release knows this type, so a stablehooks receiver runs no handler for it and stores nothing. */
export const TEST_TYPE = 'doctor.unknown';

export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface SendOptions
  extends Pick<DeliveryRequest, 'method' | 'cutAtBytes' | 'pauseMs' | 'chunked'>,
    Partial<Pick<DeliveryRequest, 'timeoutMs'>> {
  /** @default the body that is sent */
  readonly signed?: Uint8Array | undefined;
  readonly secret?: Uint8Array | undefined;
  readonly header?: string | undefined;
  readonly encoding?: SignatureEncoding | undefined;
  readonly prefix?: string | undefined;
  readonly unsigned?: boolean | undefined;
  readonly changeSignature?: ((signature: string) => string) | undefined;
  readonly contentType?: string | undefined;
}

export type TestedAnswer = EndpointAnswer & {
  readonly words: string;
  /** A login in front of an app asks for credentials (`WWW-Authenticate`). */
  readonly asksToLogIn: boolean;
};

export type Leak = 'the secret' | 'the expected signature';

export type TestedEndpoint = ReturnType<typeof createTestedEndpoint>;

export interface EndpointOptions {
  readonly url: string;
  readonly secret: string;
  readonly signature: Settings['signature'];
  readonly type: string;
  /** @default the example for the type, with a new id in each event */
  readonly payload?: TestEvent['payload'] | undefined;
  readonly timeoutMs: number;
  readonly oversizeBytes: number;
  readonly effectsUrl?: string | undefined;
  readonly signal: AbortSignal;
}

const OTHER_SECRET = new TextEncoder().encode('not the secret of this endpoint');

/** Shorter secrets also occur as parts of ordinary words. */
const MIN_SECRET_LENGTH = 6;

const STORED: ReadonlySet<string> = new Set(['handled', 'queued', 'parked', 'duplicate', 'dead']);

const MAX_WORDS = 160;

export function createTestedEndpoint(options: EndpointOptions) {
  const { url, secret, signature, type, timeoutMs, oversizeBytes, effectsUrl, signal } = options;
  const run = randomBytes(4).toString('hex');
  const createdAt = new Date().toISOString();
  const leaks = new Set<Leak>();
  const ids = new Set<string>();
  const stored = new Set<string>();

  async function signatureOf(body: Uint8Array, send: SendOptions): Promise<string | undefined> {
    if (send.unsigned) return undefined;
    const value = await sign(send.signed ?? body, {
      secret: send.secret ?? secret,
      encoding: send.encoding ?? signature.encoding,
      prefix: send.prefix ?? signature.prefix,
    });
    return send.changeSignature?.(value) ?? value;
  }

  /** A correct signature is a leak only if the request did not contain it. */
  async function noteLeaks(reply: string, body: Uint8Array, sent = ''): Promise<void> {
    if (secret.length >= MIN_SECRET_LENGTH && reply.includes(secret)) leaks.add('the secret');
    for (const encoding of SIGNATURE_ENCODINGS) {
      const expected = await sign(body, { secret, encoding });
      if (reply.includes(expected) && !sent.includes(expected)) leaks.add('the expected signature');
    }
  }

  async function send(body: Uint8Array, options: SendOptions = {}): Promise<TestedAnswer> {
    const { header = signature.header, contentType = 'application/json' } = options;
    const value = await signatureOf(body, options);
    // A receiver recognises test deliveries by their user agent, and does not count the ones that it refuses.
    const headers = {
      ...{ 'content-type': contentType, 'user-agent': 'stablehooks-doctor' },
      ...(value !== undefined && { [header]: value }),
    };
    const { answer, reply } = await deliver(url, { timeoutMs, ...options, headers, body, signal });
    const [, id] = /"id":\s*"([^"]+)"/.exec(new TextDecoder().decode(body)) ?? [];
    if (id !== undefined && STORED.has(outcomeOf(answer) ?? '')) stored.add(id);
    const text = String(reply?.body ?? '');
    await noteLeaks(`${JSON.stringify(reply?.headers)}${text}`, body, value);
    const shown = answer.kind === 'reply' && answer.isPage ? text.replaceAll(/<[^>]*>/g, ' ') : text;
    return {
      ...answer,
      words: toPlain(shown.replaceAll(secret, '[redacted]').replaceAll(/\s+/g, ' ').trim()).slice(
        0,
        MAX_WORDS,
      ),
      asksToLogIn: reply?.headers['www-authenticate'] !== undefined,
    };
  }

  /** Each check has its own movement id, because an app can refuse a second movement with the same id. */
  const examplePayload = (check: string) => ({
    ...(isEventType(type) && exampleEvent(type).payload),
    [`${type.split('.')[0]}_id`]: `doctor_${run}_${check}`,
    amount: '0.01',
  });

  return {
    url,
    runsHandlers: type !== TEST_TYPE,
    ids: ids as ReadonlySet<string>,
    stored: stored as ReadonlySet<string>,
    startedAt: performance.now(),
    leaks: leaks as ReadonlySet<Leak>,
    header: signature.header,
    timeoutMs,
    oversizeBytes,
    /** Each check always gets the same event. The given `payload` is added to that event's payload. */
    event: (
      check: string,
      changes: Partial<Pick<TestEvent, 'type' | 'created_at' | 'payload'>> = {},
    ): TestEvent => {
      const id = `evt_doctor_${run}_${check}`;
      ids.add(id);
      return {
        id,
        type: changes.type ?? type,
        created_at: changes.created_at ?? createdAt,
        payload: {
          ...(options.payload ?? examplePayload(check)),
          ...changes.payload,
          test: true,
          doctor: check,
        },
      };
    },
    send,
    sendForged: (body: Uint8Array) => send(body, { secret: OTHER_SECRET }),
    /** How many times the event took effect according to `--effects`, or `undefined` without this flag. */
    async effects(id: string): Promise<number | undefined> {
      if (effectsUrl === undefined) return undefined;
      const at = effectsUrl.replaceAll('{id}', encodeURIComponent(id));
      const { answer, reply } = await deliver(at, {
        method: 'GET',
        headers: {},
        body: new Uint8Array(),
        timeoutMs,
        signal,
      });
      if (answer.kind !== 'reply') {
        signal.throwIfAborted();
        throw unreachableError(
          `--effects cannot be reached: ${describeAnswer(answer)}. Check that its server is running and that the URL is correct.`,
        );
      }
      const count = answer.status === 200 ? readCount(String(reply?.body ?? '')) : Number.NaN;
      if (Number.isInteger(count)) return count;
      throw usageError(
        '--effects must return 200 and the number of times that the event {id} took effect, as a number or {"count": number}. For an unknown event, that number is 0.',
      );
    },
  };
}

function readCount(text: string): number {
  try {
    const value: unknown = JSON.parse(text);
    const count = typeof value === 'object' && value !== null && 'count' in value ? value.count : value;
    return typeof count === 'number' && count >= 0 ? count : Number.NaN;
  } catch {
    return Number.NaN;
  }
}

export function toBody(event: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(event));
}
