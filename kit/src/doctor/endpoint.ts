import { randomBytes } from 'node:crypto';
import { type SignatureEncoding, sign } from 'stablehooks';
import { type DeliveryRequest, deliver, describeAnswer, type EndpointAnswer } from '../io/delivery.js';
import { unreachableError, usageError } from '../io/errors.js';
import type { Settings } from '../io/settings.js';

/** An event whose payload marks it as a test. */
export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** The differences of a delivery from a genuine one. */
export interface SendOptions
  extends Pick<DeliveryRequest, 'method' | 'cutAtBytes' | 'pauseMs'>,
    Partial<Pick<DeliveryRequest, 'timeoutMs'>> {
  /** The signed bytes. @default the sent body */
  readonly signed?: Uint8Array | undefined;
  /** @default the secret from the settings */
  readonly secret?: Uint8Array | undefined;
  /** The name of the header. @default from the settings */
  readonly header?: string | undefined;
  /** @default from the settings */
  readonly encoding?: SignatureEncoding | undefined;
  /** @default from the settings */
  readonly prefix?: string | undefined;
  /** Omits the header. @default false */
  readonly unsigned?: boolean | undefined;
  /** @default 'application/json' */
  readonly contentType?: string | undefined;
}

/** The endpoint under test. */
export interface TestedEndpoint {
  readonly url: string;
  /** The name of the header that carries the signature. */
  readonly header: string;
  readonly timeoutMs: number;
  /** The size of a body that must be refused, in bytes. */
  readonly oversizeBytes: number;
  /** Creates an event for a check; `payload` is added to the fields that mark a test. */
  event(
    check: string,
    changes?: {
      readonly type?: string | undefined;
      readonly payload?: TestEvent['payload'] | undefined;
    },
  ): TestEvent;
  send(body: Uint8Array, options?: SendOptions): Promise<EndpointAnswer>;
  /** Sends a delivery with the signature of another secret. */
  sendForged(body: Uint8Array, options?: SendOptions): Promise<EndpointAnswer>;
  /** Posts an empty JSON object without a signature to another path of the same host. */
  probe(path: string): Promise<EndpointAnswer>;
  /**
   * Returns how often the event took effect, by `--effects`; `undefined` without it.
   *
   * @throws {CommandError} exit 3 when the URL does not answer, 2 when the answer is not a count.
   */
  effects(id: string): Promise<number | undefined>;
}

interface EndpointOptions {
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

const OTHER_SECRET = new TextEncoder().encode('not the secret of this endpoint');

export function createTestedEndpoint(options: EndpointOptions): TestedEndpoint {
  const { url, secret, signature, timeoutMs, oversizeBytes, effectsUrl, signal } = options;
  const run = randomBytes(4).toString('hex');

  async function headersOf(body: Uint8Array, send: SendOptions): Promise<Readonly<Record<string, string>>> {
    const { signed = body, unsigned, header = signature.header, contentType = 'application/json' } = send;
    const value = await sign(signed, {
      secret: send.secret ?? secret,
      encoding: send.encoding ?? signature.encoding,
      prefix: send.prefix ?? signature.prefix,
    });
    return { 'content-type': contentType, ...(!unsigned && { [header]: value }) };
  }

  const send: TestedEndpoint['send'] = async (body, options = {}) => {
    const headers = await headersOf(body, options);
    const { answer } = await deliver(url, { timeoutMs, ...options, headers, body, signal });
    return answer;
  };

  return {
    url,
    header: signature.header,
    timeoutMs,
    oversizeBytes,
    event: (check, { type = options.type, payload } = {}) => ({
      id: `evt_doctor_${run}_${check}`,
      type,
      created_at: new Date().toISOString(),
      payload: { ...options.payload, ...payload, test: true, doctor: check },
    }),
    send,
    sendForged: (body, options) => send(body, { ...options, secret: OTHER_SECRET }),
    async probe(path) {
      const headers = { 'content-type': 'application/json' };
      const body = new TextEncoder().encode('{}');
      const { answer } = await deliver(new URL(path, url).href, { headers, body, timeoutMs, signal });
      return answer;
    },
    async effects(id) {
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
          `--effects cannot be reached: ${describeAnswer(answer)}. Check that it is started, and the URL.`,
        );
      }
      const count = answer.status === 200 ? readCount(String(reply?.body ?? '')) : Number.NaN;
      if (Number.isInteger(count)) return count;
      throw usageError(
        '--effects must answer 200 with how often the event {id} took effect: a number, or {"count": number}; 0 for an unknown event.',
      );
    },
  };
}

/** The count; NaN for any other value, such as `null` for an unknown event. */
function readCount(text: string): number {
  try {
    const value: unknown = JSON.parse(text);
    const count = typeof value === 'object' && value !== null && 'count' in value ? value.count : value;
    return typeof count === 'number' && count >= 0 ? count : Number.NaN;
  } catch {
    return Number.NaN;
  }
}

/** The event as compact JSON. */
export function toBody(event: TestEvent): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(event));
}
