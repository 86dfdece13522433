import { isUtf8 } from 'node:buffer';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { sign } from 'stablehooks';
import { untilAborted } from '../in-time.js';
import { MAX_REPLY_BYTES, type ReplyReport, readReport } from '../io/answer.js';
import type { Clock } from './clock.js';
import type { Endpoints, Target } from './endpoints.js';
import type { EventLog, SandboxEvent } from './events.js';
import type { FaultSource } from './faults.js';
import type { Feed } from './feed.js';
import { Fifo } from './fifo.js';
import type { Random } from './random.js';
import { SandboxError } from './validation.js';

/** `exhausted` means that every attempt failed, or that the endpoint was removed. */
export type DeliveryState = 'pending' | 'delivered' | 'exhausted';

/**
 * The delivery of one event to one endpoint. The sandbox makes attempts until the endpoint responds with a 2xx, or
 * until no attempts are left.
 */
export interface Delivery {
  readonly id: string;
  readonly eventId: string;
  readonly endpointId: string;
  readonly state: DeliveryState;
  /** How many attempts have been started so far. */
  readonly attempts: number;
}

/** The exact body of a request or response. */
export interface MessageBody {
  readonly body: string;
  /** The bytes in base64, if they are not valid UTF-8. `body` then contains U+FFFD in place of the invalid bytes. */
  readonly bodyBase64?: string | undefined;
}

/** The request and the response of one attempt. */
export interface Attempt {
  readonly deliveryId: string;
  readonly eventId: string;
  /** The event's type. */
  readonly type: string;
  readonly endpointId: string;
  /** Whether `resend` sent bytes that differ from the event's body. @default false */
  readonly edited?: boolean | undefined;
  /** Whether `resend` sent the request to a URL other than the endpoint's. @default false */
  readonly elsewhere?: boolean | undefined;
  /** The number of the attempt within the delivery, counting from 1. A duplicate has the same number as the original. */
  readonly number: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly request: MessageBody & {
    readonly method: 'POST';
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
  };
  /** The response, or `null` if none arrived. Only the first 1,024 bytes of the body are kept. */
  readonly response:
    | (MessageBody & {
        readonly status: number;
        readonly headers: Readonly<Record<string, string>>;
        /** What the receiver reported in the response body. No report is read from a body of more than 64 KiB. */
        readonly report: ReplyReport;
      })
    | null;
  /** Why no response arrived; `null` if a response arrived. */
  readonly error: string | null;
  /**
   * The code of `error`, such as `ECONNREFUSED` or `DEPTH_ZERO_SELF_SIGNED_CERT`, or `ERR_ATTEMPT_TIMEOUT` if the
   * endpoint did not respond in time. `null` if there is no error, or if the error has no code, for example because a
   * fault caused it.
   */
  readonly errorCode: string | null;
  /** The faults that occurred: `drop`, `duplicate`, `corruptSignature`, `reserialise`, `cut` or `reset`. */
  readonly faults: readonly string[];
}

interface DeliveryOptions {
  readonly timeoutMs: number;
  readonly maxAttempts: number;
  readonly retryBaseMs: number;
  readonly retryMaxMs: number;
  /** Per endpoint, so that an endpoint that never responds does not delay other endpoints. */
  readonly concurrency: number;
  readonly maxAttemptsKept: number;
  readonly maxEvents: number;
}

interface Parts {
  readonly clock: Clock;
  readonly random: Random;
  readonly faults: FaultSource;
  readonly endpoints: Endpoints;
  readonly events: EventLog;
  readonly feed: Feed;
}

/** The maximum accepted `Retry-After`, so that an endpoint cannot postpone an attempt indefinitely. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/** The changes to make when a delivery is resent. */
export interface Resending {
  /** The URL to send to. The request is signed with the endpoint's secret. @default the URL of the endpoint */
  readonly url?: string | undefined;
  /** The body to sign and send, as a string or as bytes. The bytes don't have to be valid UTF-8. @default the event */
  readonly body?: string | Uint8Array | undefined;
}

const NO_DELIVERY = 'This delivery no longer exists. List the deliveries to see which ones do.';

/** A person who resends an event wants to see how the endpoint itself responds. */
const NO_FAULTS: Pick<FaultSource, 'occurs'> = { occurs: () => false };

function isDelivered({ response }: Attempt): boolean {
  return Math.floor((response?.status ?? 0) / 100) === 2;
}

type PendingDelivery = { -readonly [Field in keyof Delivery]: Delivery[Field] } & {
  readonly event: SandboxEvent;
};

/** The time between two resets. Once a session has ended, responses to its attempts are not recorded. */
interface Session {
  ended: boolean;
  readonly underWay: Set<AbortController>;
}

export function createDeliveries(parts: Parts, options: DeliveryOptions) {
  const { clock, random, faults, endpoints, events, feed } = parts;
  let pending = new Map<string, PendingDelivery>();
  let ended = new Fifo<Delivery>();
  let attempts = new Fifo<Attempt>();
  /** Older attempts to deliver events that no endpoint has accepted: at most half of all kept attempts. */
  let failures = new Fifo<Attempt>();
  let session: Session = { ended: false, underWay: new Set() };
  let queues = queuesOf(session);
  let count = 0;

  function nextId(): string {
    count += 1;
    return `del_${random.hex(`delivery:${count}`, 16)}`;
  }

  function start(event: SandboxEvent, target: Target): void {
    const id = nextId();
    const { reorderMs, delayMs } = faults.get();
    const reordered = faults.occurs('reorder', id) ? Math.ceil(random.number(`hold:${id}`) * reorderMs) : 0;
    const delayed = faults.occurs('delay', id) ? delayMs : 0;
    const delivery: PendingDelivery = {
      ...{ id, eventId: event.id, endpointId: target.id, state: 'pending', attempts: 0, event },
    };
    pending.set(id, delivery);
    clock.begin();
    enqueue(delivery, reordered + delayed);
  }

  function enqueue(delivery: PendingDelivery, waitMs: number): void {
    if (waitMs > 0) clock.after(waitMs, () => enqueue(delivery, 0));
    else queues.push(delivery.endpointId, delivery);
  }

  function queuesOf(of: Session) {
    return createQueues(options.concurrency, (delivery: PendingDelivery) => {
      const attempted = attempt(delivery, of);
      clock.waitFor(attempted);
      return attempted;
    });
  }

  async function attempt(delivery: PendingDelivery, of: Session): Promise<void> {
    if (delivery.state !== 'pending') return;
    const target = endpoints.get(delivery.endpointId);
    delivery.attempts += 1;
    const abort = new AbortController();
    of.underWay.add(abort);
    const { event, id: deliveryId, attempts: number } = delivery;
    const plan = { event, target, deliveryId, number, timeoutMs: options.timeoutMs, abort };
    const duplicated = faults.occurs('duplicate', `${deliveryId}:${number}`);
    const copies = duplicated ? [[], ['duplicate']] : [[]];
    const made = await Promise.all(
      copies.map((known) => makeAttempt({ ...plan, faults: known }, { clock, faults })),
    );
    of.underWay.delete(abort);
    if (of.ended) return;
    made.forEach(keepAttempt);
    const delivered = made.some(isDelivered);
    if (delivered) events.markDelivered(delivery.eventId);
    // The endpoint was removed during the attempt.
    if (delivery.state !== 'pending') return;
    if (delivered) return end(delivery, 'delivered');
    if (number >= options.maxAttempts) return end(delivery, 'exhausted');
    const fullMs = Math.min(options.retryBaseMs * 2 ** Math.min(number - 1, 52), options.retryMaxMs);
    // The delay is random, so that deliveries that failed together are not retried together.
    const jitter = 0.5 + random.number(`retry:${deliveryId}:${number}`) / 2;
    const askedMs = Math.max(...made.map(({ response }) => readRetryAfter(response?.headers['retry-after'])));
    const waitMs = Math.max(1, Math.round(fullMs * jitter), Math.min(askedMs, MAX_RETRY_AFTER_MS));
    enqueue(delivery, waitMs);
  }

  function keepAttempt(attempt: Attempt): void {
    attempts.push(attempt);
    while (attempts.length + failures.length > options.maxAttemptsKept) {
      const oldest = attempts.shift();
      if (oldest !== undefined && !events.isDelivered(oldest.eventId)) failures.push(oldest);
      if (failures.length > options.maxAttemptsKept / 2) failures.shift();
    }
    feed.publish('attempt.made', attempt);
  }

  function keptAttempts(): readonly Attempt[] {
    return [...failures.toArray(), ...attempts.toArray()];
  }

  async function resend(deliveryId: string, { url, body }: Resending): Promise<Attempt> {
    const of = session;
    const earlier =
      pending.get(deliveryId) ??
      ended.toArray().find(({ id }) => id === deliveryId) ??
      keptAttempts().find((attempt) => attempt.deliveryId === deliveryId);
    if (earlier === undefined) throw new SandboxError('ERR_SANDBOX_NOT_FOUND', NO_DELIVERY);
    const event = events.get(earlier.eventId);
    const target = endpoints.get(earlier.endpointId);
    const own = toBytes(toBody(event));
    const sent = body === undefined ? own : toBytes(body);
    const isEdited = !own.equals(sent);
    const isElsewhere = url !== undefined && url !== target.url;
    const id = nextId();
    const abort = new AbortController();
    of.underWay.add(abort);
    const made = makeAttempt(
      {
        ...{ event, deliveryId: id, number: 1, timeoutMs: options.timeoutMs, abort, faults: [] },
        body: isEdited ? sent : undefined,
        target: isElsewhere ? { ...target, url, fetch: undefined } : target,
      },
      { clock, faults: NO_FAULTS },
    );
    clock.waitFor(made);
    const attempt = { ...(await made), ...(isElsewhere && { elsewhere: true }) };
    of.underWay.delete(abort);
    if (of.ended) return attempt;
    keepAttempt(attempt);
    // With a different body or URL, the attempt does not show that the endpoint has the event, so it is not a delivery.
    if (isElsewhere || isEdited) return attempt;
    if (isDelivered(attempt)) events.markDelivered(event.id);
    const state = isDelivered(attempt) ? 'delivered' : 'exhausted';
    finish({ id, eventId: event.id, endpointId: target.id, state, attempts: 1 });
    return attempt;
  }

  function finish(delivery: Delivery): void {
    ended.push(delivery);
    if (ended.length > options.maxEvents) ended.shift();
    feed.publish(`delivery.${delivery.state}`, delivery);
  }

  function end(delivery: PendingDelivery, state: DeliveryState): void {
    delivery.state = state;
    pending.delete(delivery.id);
    finish(toDelivery(delivery));
    clock.end();
  }

  function stop(): void {
    session.ended = true;
    queues.close();
    for (const abort of session.underWay) abort.abort(new Error('The sandbox was closed or reset.'));
  }

  return {
    begin(event: SandboxEvent): void {
      for (const target of endpoints.list()) start(event, target);
    },
    resend,
    abandon(endpointId: string): void {
      for (const delivery of pending.values()) {
        if (delivery.endpointId === endpointId) end(delivery, 'exhausted');
      }
    },
    /** Pending deliveries come before ended deliveries. Both are listed newest first. */
    list: (): Delivery[] => [...ended.toArray(), ...[...pending.values()].map(toDelivery)].toReversed(),
    /** Oldest first. */
    attempts: keptAttempts,

    stop,

    reset(): void {
      stop();
      session = { ended: false, underWay: new Set() };
      pending = new Map();
      ended = new Fifo();
      attempts = new Fifo();
      failures = new Fifo();
      queues = queuesOf(session);
      count = 0;
    },
  };
}

function toDelivery({ id, eventId, endpointId, state, attempts }: Delivery): Delivery {
  return { id, eventId, endpointId, state, attempts };
}

/** `work` must never reject. */
function createQueues<Job>(concurrency: number, work: (job: Job) => Promise<void>) {
  const create = () => ({ active: 0, waiting: new Fifo<Job>() });
  const queues = new Map<string, ReturnType<typeof create>>();
  let closed = false;

  function startNext(queue: ReturnType<typeof create>): void {
    while (!closed && queue.active < concurrency) {
      const job = queue.waiting.shift();
      if (job === undefined) return;
      queue.active += 1;
      work(job).then(() => {
        queue.active -= 1;
        startNext(queue);
      });
    }
  }

  return {
    push(name: string, job: Job): void {
      const queue = queues.get(name) ?? create();
      queues.set(name, queue);
      queue.waiting.push(job);
      startNext(queue);
    },
    close(): void {
      closed = true;
    },
  };
}

interface AttemptPlan {
  readonly event: SandboxEvent;
  readonly target: Target;
  readonly deliveryId: string;
  readonly number: number;
  /** The faults that are known in advance: either `duplicate` or none. */
  readonly faults: readonly string[];
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
  readonly timeoutMs: number;
  /** Aborted when the time limit is reached, or when the sandbox is reset or closed. */
  readonly abort: AbortController;
}

const ATTEMPT_FAULTS = ['drop', 'corruptSignature', 'reserialise', 'cut', 'reset'] as const;
const CUT = 'The connection was cut halfway through the body.';
const RESET = 'The connection was reset before the response.';

export const KEPT_RESPONSE_BYTES = 1_024;

export const ATTEMPT_TIMEOUT = 'ERR_ATTEMPT_TIMEOUT';

/** Never rejects: if the attempt fails, its `error` says why. */
async function makeAttempt(
  plan: AttemptPlan,
  { clock, faults }: { readonly clock: Clock; readonly faults: Pick<FaultSource, 'occurs'> },
): Promise<Attempt> {
  const { event, target, deliveryId, number, timeoutMs, abort } = plan;
  const key = `${deliveryId}:${number}:${plan.faults.length}`;
  const occurred = [...plan.faults, ...ATTEMPT_FAULTS.filter((fault) => faults.occurs(fault, key))];

  const { id, type } = event;
  const signed = plan.body ?? toBytes(toBody(event));
  const sent = occurred.includes('reserialise') ? toBytes(toBody(event, 1)) : signed;
  const headers: Record<string, string> = { 'content-type': 'application/json' };

  const startedAt = clock.now();
  let response: Attempt['response'] = null;
  let failure: AttemptFailure = { error: null, errorCode: null };
  const message = `The endpoint did not respond within ${timeoutMs} ms.`;
  const late = Object.assign(new Error(message), { code: ATTEMPT_TIMEOUT });
  const cancel = clock.after(timeoutMs, () => abort.abort(late));
  const { signal } = abort;
  try {
    const signature = await sign(signed, { secret: target.secret, encoding: target.encoding });
    headers[target.signatureHeader] = occurred.includes('corruptSignature') ? corrupt(signature) : signature;
    if (occurred.includes('drop')) throw new Error('The delivery was dropped before it arrived.');
    // The attempt may have been aborted while the body was being signed. In that case, nothing must be sent.
    signal.throwIfAborted();
    const sending = occurred.includes('cut')
      ? sendHalf(target, headers, sent, signal)
      : occurred.includes('reset')
        ? sendAndReset(target, headers, sent, signal)
        : sendRequest(target, { headers, body: sent, signal });
    response = await untilAborted(sending, signal);
  } catch (cause) {
    failure = toFailure(signal.aborted ? signal.reason : cause);
  } finally {
    cancel();
  }
  return {
    ...{ deliveryId, eventId: id, type, endpointId: target.id, number },
    startedAt: new Date(startedAt).toISOString(),
    durationMs: clock.now() - startedAt,
    ...(plan.body === undefined ? {} : { edited: true }),
    request: { method: 'POST', url: target.url, headers, ...toMessageBody(sent) },
    ...{ response, ...failure, faults: occurred },
  };
}

async function sendRequest(
  { url, fetch: send = fetch }: Target,
  init: RequestInit & { readonly duplex?: 'half' },
): Promise<Attempt['response']> {
  const { status, headers, body } = await send(
    new Request(url, { method: 'POST', redirect: 'manual', ...init }),
  );
  const read = await readStart(body);
  return {
    ...{
      status,
      headers: Object.fromEntries(headers),
      ...toMessageBody(read.subarray(0, KEPT_RESPONSE_BYTES)),
    },
    report: readReport(read, headers.get('content-type') ?? undefined),
  };
}

function sendHalf(
  target: Target,
  headers: Readonly<Record<string, string>>,
  bytes: Uint8Array,
  signal: AbortSignal,
): Promise<Attempt['response']> {
  const half = bytes.slice(0, bytes.length >> 1);
  if (target.fetch !== undefined) {
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(half),
      // Called once the first half has been read.
      pull: (controller) => controller.error(new Error(CUT)),
    });
    return sendRequest(target, { headers, body, duplex: 'half', signal });
  }
  return new Promise((_, reject) => {
    const request = openRequest(target, { ...headers, 'content-length': String(bytes.length) }, signal);
    request.on('error', reject);
    // If there was no error, the endpoint responded before it had received the whole body.
    request.on('close', () => reject(new Error(CUT)));
    request.write(half, () => request.destroy(new Error(CUT)));
  });
}

/** Resets the connection when the response begins, because by then the endpoint has handled the request. */
async function sendAndReset(
  target: Target,
  headers: Readonly<Record<string, string>>,
  bytes: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
): Promise<never> {
  if (target.fetch !== undefined) {
    await sendRequest(target, { headers, body: bytes, signal });
    throw new Error(RESET);
  }
  return new Promise((_, reject) => {
    const request = openRequest(target, { ...headers, 'content-length': String(bytes.length) }, signal);
    request.on('error', reject);
    request.on('response', (response) => {
      reject(new Error(RESET));
      response.on('error', () => {});
      response.socket.resetAndDestroy();
    });
    request.end(bytes);
  });
}

/** Replaces `fetch`, because `fetch` gives no access to its connection and reads a stream before connecting. */
function openRequest(target: Target, headers: Readonly<Record<string, string>>, signal: AbortSignal) {
  const send = new URL(target.url).protocol === 'https:' ? requestHttps : requestHttp;
  // Opens a new connection, because the endpoint may close an idle connection at the moment when it is reused.
  return send(target.url, { agent: false, method: 'POST', headers, signal });
}

async function readStart(body: ReadableStream<Uint8Array> | null): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let left = MAX_REPLY_BYTES + 1;
  for await (const chunk of body ?? []) {
    chunks.push(chunk.subarray(0, left));
    left -= chunk.length;
    if (left <= 0) break;
  }
  return Buffer.concat(chunks);
}

/** Leaves out the fields that only the list contains. */
function toBody({ id, type, created_at, payload }: SandboxEvent, indent?: number): string {
  return JSON.stringify({ id, type, created_at, payload }, null, indent);
}

/** Returns a copy, because the caller may change the bytes later. */
function toBytes(body: string | Uint8Array): Buffer<ArrayBuffer> {
  return Buffer.from(body);
}

function toMessageBody(bytes: Uint8Array): MessageBody {
  const body = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  return isUtf8(bytes) ? { body } : { body, bodyBase64: Buffer.from(bytes).toString('base64') };
}

export function bytesOf({ body, bodyBase64 }: MessageBody): Uint8Array {
  return bodyBase64 === undefined ? new TextEncoder().encode(body) : Buffer.from(bodyBase64, 'base64');
}

/** In ms; 0 if the header is not a number of seconds. */
function readRetryAfter(value = ''): number {
  return /^\d+$/.test(value) ? Number(value) * 1000 : 0;
}

function corrupt(signature: string): string {
  return (signature.startsWith('0') ? '1' : '0') + signature.slice(1);
}

type AttemptFailure = Pick<Attempt, 'error' | 'errorCode'>;

/** `fetch` puts the reason for a failure into `cause`. */
function toFailure(thrown: unknown): AttemptFailure {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  if (!(cause instanceof Error)) {
    return { error: 'The endpoint threw a value that is not an error.', errorCode: null };
  }
  const errorCode = 'code' in cause && typeof cause.code === 'string' ? cause.code : null;
  // If a host has several addresses and all of them refuse the connection, the error has no message.
  return { error: cause.message || errorCode || cause.name, errorCode };
}
