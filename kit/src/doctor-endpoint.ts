/** The endpoint under examination: test events, ways to send them, and a count of what they did. */
import { randomBytes } from 'node:crypto';
import type { SignatureEncoding } from 'stablehooks';
import { sign } from 'stablehooks';
import { type Answer, type Delivery, deliver, describeAnswer } from './delivery.js';
import { unreachableError, usageError } from './failure.js';
import type { Settings } from './settings.js';

/** An event that says of itself that it is a test. */
export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** How a delivery is sent, where it is not just signed and sent. */
export interface Manner extends Partial<Pick<Delivery, 'method' | 'cutAtBytes' | 'pauseMs'>> {
  /** The signature's bytes are those of this body. @default the body that is sent */
  readonly signed?: Uint8Array;
  /** @default the secret from the settings */
  readonly secret?: Uint8Array;
  /** @default as the settings say */
  readonly encoding?: SignatureEncoding;
  /** @default as the settings say */
  readonly prefix?: string;
  /** Leaves the header out. @default false */
  readonly unsigned?: boolean;
  /** @default 'application/json' */
  readonly contentType?: string;
}

/** What checks are run against. */
export interface Endpoint {
  readonly timeoutMs: number;
  /** How large a body is too large, in bytes. */
  readonly oversizeBytes: number;
  /** Makes an event for a check; `payload` is added to the marks of a test. */
  event(
    check: string,
    changes?: { readonly type?: string; readonly payload?: TestEvent['payload'] },
  ): TestEvent;
  send(body: Uint8Array, manner?: Manner): Promise<Answer>;
  /**
   * How often the event took effect, where `--effects` tells; else `undefined`.
   *
   * @throws {CommandError} exit 3 when it does not answer, 2 when its answer is no count.
   */
  effects(id: string): Promise<number | undefined>;
}

/** Options of {@link createEndpoint}. */
export interface EndpointOptions {
  readonly url: string;
  readonly secret: string;
  readonly signature: Settings['signature'];
  readonly type: string;
  readonly payload: TestEvent['payload'];
  readonly timeoutMs: number;
  readonly oversizeBytes: number;
  readonly effectsUrl: string | undefined;
  readonly signal: AbortSignal;
}

/** Makes it. */
export function createEndpoint(options: EndpointOptions): Endpoint {
  const { url, secret, signature, timeoutMs, oversizeBytes, effectsUrl, signal } = options;
  const run = randomBytes(4).toString('hex');

  async function headersOf(body: Uint8Array, manner: Manner): Promise<Readonly<Record<string, string>>> {
    const { signed = body, unsigned, contentType = 'application/json' } = manner;
    const value = await sign(signed, {
      secret: manner.secret ?? secret,
      encoding: manner.encoding ?? signature.encoding,
      prefix: manner.prefix ?? signature.prefix,
    });
    return { 'content-type': contentType, ...(!unsigned && { [signature.header]: value }) };
  }

  return {
    timeoutMs,
    oversizeBytes,
    event: (check, { type = options.type, payload } = {}) => ({
      id: `evt_doctor_${run}_${check}`,
      type,
      created_at: new Date().toISOString(),
      payload: { ...options.payload, ...payload, test: true, doctor: check },
    }),
    async send(body, manner = {}) {
      const headers = await headersOf(body, manner);
      const { answer } = await deliver(url, { ...manner, headers, body, timeoutMs, signal });
      return answer;
    },
    async effects(id) {
      if (effectsUrl === undefined) return undefined;
      const at = effectsUrl.replaceAll('{id}', encodeURIComponent(id));
      const { answer, text } = await deliver(at, {
        method: 'GET',
        headers: {},
        body: new Uint8Array(),
        timeoutMs,
        signal,
      });
      if (answer.kind !== 'reply') {
        signal.throwIfAborted();
        throw unreachableError(
          `--effects cannot be asked: ${describeAnswer(answer)}. Is it started, and the URL right?`,
        );
      }
      const count = answer.status === 200 ? readCount(text) : Number.NaN;
      if (Number.isInteger(count)) return count;
      throw usageError(
        '--effects must answer 200 with how often the event {id} took effect: a number, or {"count": number}.',
      );
    },
  };
}

function readCount(text: string): number {
  try {
    const value: unknown = JSON.parse(text);
    return Number(typeof value === 'object' && value !== null && 'count' in value ? value.count : value);
  } catch {
    return Number.NaN;
  }
}

const utf8 = new TextEncoder();

/** The event as the service most likely writes it: compact JSON. */
export function toBody(event: TestEvent): Uint8Array {
  return utf8.encode(JSON.stringify(event));
}
