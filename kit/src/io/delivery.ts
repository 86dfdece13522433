import { type ClientRequest, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { setTimeout as wait } from 'node:timers/promises';
import { sign, type UnknownEvent } from 'stablehooks';
import { connectionFailure } from '../explain/connection.js';
import { type Printer, toJsonText, toPlain } from './output.js';
import type { Settings } from './settings.js';

/** An HTTP request that delivers an event. */
export interface DeliveryRequest {
  /** @default 'POST' */
  readonly method?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** How long to wait for the answer, in ms. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Cuts the connection after this many bytes of the body. @default not cut */
  readonly cutAtBytes?: number | undefined;
  /** Sends the body in pieces, with a pause of this many ms between them. @default 0, in one piece */
  readonly pauseMs?: number | undefined;
}

/** Faults of a sandbox that prevent an answer. */
export const LOSSES = ['drop', 'cut', 'reset'] as const;

/**
 * How an endpoint answered.
 *
 * - `reply`: with a status; `outcome` and `code` come from the reply of a stablehooks receiver.
 * - `silence`: not within the time limit.
 * - `unreachable`: there was no connection, or it broke; `reason` is the system's code.
 * - `lost`: a sandbox lost the delivery, or the answer if `fault` is `reset`. `fault` is the fault that occurred.
 */
export type EndpointAnswer = { readonly elapsedMs: number } & (
  | {
      readonly kind: 'reply';
      readonly status: number;
      readonly outcome: string | undefined;
      readonly code: string | undefined;
      /** The unchanged target of a redirect. */
      readonly location?: string | undefined;
      /** The fault of a sandbox that made the signature wrong. */
      readonly fault?: string | undefined;
    }
  | { readonly kind: 'silence' }
  | { readonly kind: 'unreachable'; readonly reason: string }
  | { readonly kind: 'lost'; readonly fault: (typeof LOSSES)[number] }
);

/** The outcome and the code in the reply of a stablehooks receiver; `undefined` for other replies. */
export function readOutcome(text: string): {
  readonly outcome: string | undefined;
  readonly code: string | undefined;
} {
  try {
    const { outcome, code } = JSON.parse(text) ?? {};
    return {
      outcome: typeof outcome === 'string' ? outcome : undefined,
      code: typeof code === 'string' ? code : undefined,
    };
  } catch {
    return { outcome: undefined, code: undefined };
  }
}

/** Whether the answer is 2xx, after which the sender stops: nothing else means delivered. A handler need not have run. */
export function isDelivered(answer: EndpointAnswer): boolean {
  const status = statusOf(answer);
  return status >= 200 && status < 300;
}

/** Whether the endpoint refused the signature: 401 or 403. Another 4xx does not show that it checked the signature. */
export function isSignatureRefused(answer: EndpointAnswer): boolean {
  return statusOf(answer) === 401 || statusOf(answer) === 403;
}

/** The status of a reply; 0 without a reply. */
export function statusOf(answer: EndpointAnswer): number {
  return answer.kind === 'reply' ? answer.status : 0;
}

/** The fault of a sandbox that made the signature wrong. */
export function faultOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.fault : undefined;
}

/** In how many pieces a slow body is sent. */
const PIECES = 3;

/** The most that is read of a reply, in bytes. */
const MAX_REPLY_BYTES = 65_536;

/** The reply itself, beside the facts of the answer. */
export interface Reply {
  readonly headers: Readonly<Record<string, string>>;
  /** Its first 64 KiB. */
  readonly body: Buffer;
}

/** The result of one request. */
export interface Delivered {
  /** Without the reply, because commands keep answers by the thousand. */
  readonly answer: EndpointAnswer;
  /** `undefined` without a reply. */
  readonly reply: Reply | undefined;
}

/** Sends one request. Never rejects, and follows no redirect. */
export async function deliver(url: string, delivery: DeliveryRequest): Promise<Delivered> {
  const start = performance.now();
  const { reply, ...ended } = await exchange(url, delivery);
  const elapsedMs = Math.round(performance.now() - start);
  return { answer: { ...ended, elapsedMs } as EndpointAnswer, reply };
}

type Exchange = (EndpointAnswer extends infer One
  ? One extends EndpointAnswer
    ? Omit<One, 'elapsedMs'>
    : never
  : never) & {
  readonly reply?: Reply;
};

function exchange(url: string, delivery: DeliveryRequest): Promise<Exchange> {
  let sent: ClientRequest;
  try {
    sent = begin(url, delivery);
  } catch (error) {
    return Promise.resolve({ kind: 'unreachable', reason: reasonOf(error) });
  }
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ kind: 'silence' });
      sent.destroy();
    }, delivery.timeoutMs);
    const end = (ended: Exchange) => {
      clearTimeout(timer);
      resolve(ended);
    };
    const fail = (error: unknown) => end({ kind: 'unreachable', reason: reasonOf(error) });
    sent.on('error', fail);
    sent.on('response', (response) => {
      const chunks: Buffer[] = [];
      let left = MAX_REPLY_BYTES;
      response.on('data', (chunk: Buffer) => {
        if (left > 0) chunks.push(chunk.subarray(0, left));
        left -= chunk.length;
      });
      response.on('error', () => end({ kind: 'unreachable', reason: 'ECONNRESET' }));
      response.on('end', () => {
        const body = Buffer.concat(chunks);
        end({
          kind: 'reply',
          status: response.statusCode ?? 0,
          location: response.headers.location,
          reply: { headers: toRecord(response.headersDistinct), body },
          ...readOutcome(body.toString()),
        });
      });
    });
    write(sent, delivery).catch(fail);
  });
}

function toRecord(headers: NodeJS.Dict<string[]>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, values = []]) => [name, values.join(', ')]));
}

/** @throws Node's error for a header or a URL that no request can have. */
function begin(url: string, { method = 'POST', headers, body, signal }: DeliveryRequest): ClientRequest {
  const request = new URL(url).protocol === 'https:' ? requestHttps : requestHttp;
  const length = method === 'GET' ? {} : { 'content-length': body.length };
  return request(url, {
    // A new connection, because the other side can close a kept connection at the moment of its reuse.
    agent: false,
    method,
    headers: { ...headers, ...length },
    ...(signal && { signal }),
  });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'invalid request';
  return 'code' in error ? String(error.code) : error.name;
}

async function write(sent: ClientRequest, { body, cutAtBytes, pauseMs = 0 }: DeliveryRequest): Promise<void> {
  if (cutAtBytes !== undefined) {
    // Bytes that the system has accepted arrive before the connection ends.
    await new Promise((resolve) => sent.write(body.subarray(0, cutAtBytes), resolve));
    sent.destroy();
    return;
  }
  if (pauseMs > 0) {
    const step = Math.ceil(body.length / PIECES);
    for (let at = 0; at < body.length; at += step) {
      sent.write(body.subarray(at, at + step));
      await wait(pauseMs);
    }
    sent.end();
    return;
  }
  sent.end(body);
}

/** The outcomes with 2xx of a stablehooks receiver for which no handler ran to its end, and their meaning. */
const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  dead: 'the endpoint dead-lettered it. `stablehooks inbox show` prints the error, and `stablehooks inbox requeue` makes it due again.',
  ignored: 'the endpoint has no handler for this type, so nothing ran.',
  parked:
    'the endpoint did not know this type when the event came, so nothing ran. It runs once a receiver that knows the type and has a handler for it redrives.',
};

/** Whether the answer is 2xx, but its reply reports that no handler ran to its end: `dead`, `ignored` or `parked`. */
export function isWithoutEffect(answer: EndpointAnswer): boolean {
  return isDelivered(answer) && Object.hasOwn(WITHOUT_EFFECT, outcomeOf(answer) ?? '');
}

/**
 * Whether the endpoint handled or enqueued the event, as far as its answer shows: 2xx, and not {@link isWithoutEffect}. A
 * receiver that is not built with stablehooks shows its status only. A delivery with a wrong signature by a fault of the
 * sandbox must be refused, so a 2xx is a failure.
 */
export function isAccepted(answer: EndpointAnswer): boolean {
  return isDelivered(answer) && !isWithoutEffect(answer) && faultOf(answer) === undefined;
}

/** Whether the reply reports that the endpoint has no handler for the event: 2xx with `ignored` or `parked`. */
export function reportsNoHandler(answer: EndpointAnswer): boolean {
  return isWithoutEffect(answer) && outcomeOf(answer) !== 'dead';
}

/** Whether the endpoint accepted the event for later, so its answer does not show the effect. */
export function isQueued(answer: EndpointAnswer): boolean {
  return statusOf(answer) === 202 || outcomeOf(answer) === 'queued';
}

/** Whether another delivery or process of the endpoint runs the event, or must run it. */
export function isBusy(answer: EndpointAnswer): boolean {
  return answer.kind === 'reply' && answer.code === 'ERR_EVENT_BUSY';
}

/** The outcome in the reply of a stablehooks receiver; `undefined` from other receivers. */
export function outcomeOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.outcome : undefined;
}

/** The answer in a few words: `200 handled`, `401 ERR_SIGNATURE_MISMATCH`, `no answer in 10 s`. */
export function describeAnswer(answer: EndpointAnswer): string {
  if (answer.kind === 'silence') return `no answer in ${formatWait(answer.elapsedMs)}`;
  if (answer.kind === 'lost')
    return `${isAnswerLost(answer) ? 'answer lost' : 'lost'} (fault ${answer.fault})`;
  if (answer.kind === 'unreachable') {
    return `${connectionFailure(answer.reason)?.what ?? 'no connection'} (${answer.reason})`;
  }
  const fault = answer.fault && `(fault ${answer.fault})`;
  return [answer.status, answer.code ?? answer.outcome, fault].filter(Boolean).join(' ');
}

/** Whether the delivery arrived, and the sandbox only dropped the answer. */
function isAnswerLost({ fault }: { readonly fault: string }): boolean {
  return fault === 'reset';
}

/** A time limit as it was typed, with the precision of a timer: `400 ms`, `1.5 s`. */
function formatWait(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${Math.round(ms / 100) / 10} s`;
}

/** Sends signed events to one endpoint. */
export interface Sender {
  send(event: UnknownEvent): Promise<EndpointAnswer>;
  /** Sends a body with the signature of other bytes, or of another secret. */
  sendBytes(body: Uint8Array, signed: Uint8Array, secret?: string): Promise<EndpointAnswer>;
  /** Sends a body with its signature, and returns the sent and received bytes. */
  sendKept(body: Uint8Array): Promise<SentDelivery>;
}

/** A delivery that was sent, byte for byte. */
export interface SentDelivery extends Delivered {
  readonly at: Date;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** Creates a sender that signs by the settings. Ctrl-C does not abort a delivery that has begun. */
export async function createSender(url: string, settings: Settings, timeoutMs: number): Promise<Sender> {
  const ownSecret = await settings.secret();
  const { header, encoding, prefix } = settings.signature;

  async function sendSigned(body: Uint8Array, signed: Uint8Array, secret: string): Promise<SentDelivery> {
    const headers = {
      'content-type': 'application/json',
      [header]: await sign(signed, { secret, encoding, prefix }),
    };
    const at = new Date();
    return { at, url, headers, body, ...(await deliver(url, { headers, body, timeoutMs })) };
  }
  const sendKept: Sender['sendKept'] = (body) => sendSigned(body, body, ownSecret);
  return {
    sendKept,
    sendBytes: async (body, signed, secret = ownSecret) => (await sendSigned(body, signed, secret)).answer,
    send: async (event) => (await sendKept(toBytes(event))).answer,
  };
}

/** The body of a delivery: compact JSON, without `delivered`, which only the list has. */
export function toBytes({ delivered: _, ...event }: UnknownEvent): Uint8Array {
  return new TextEncoder().encode(toJsonText(event));
}

/** A delivered event, and the answer of the endpoint. */
export interface DeliveryRow {
  readonly event: UnknownEvent;
  readonly answer: EndpointAnswer;
  /** The URL of the endpoint, where a command delivers to several. */
  readonly endpoint?: string | undefined;
}

/**
 * Prints one delivery: green if the answer is the expected one, yellow if it is 2xx without effect, otherwise red.
 *
 * @param expected - whether an answer is a success of the command. By default {@link isAccepted}.
 */
export function printRow(
  printer: Printer,
  { event, answer, endpoint }: DeliveryRow,
  expected: (answer: EndpointAnswer) => boolean = isAccepted,
): void {
  const { good, bad, doubtful, faint } = printer.paint;
  const failed = isWithoutEffect(answer) ? doubtful : bad;
  const words = (expected(answer) ? good : failed)(toPlain(describeAnswer(answer)));
  const row = [toPlain(event.type), toPlain(event.id), words, faint(`${answer.elapsedMs} ms`)];
  if (endpoint !== undefined) row.push(faint(toPlain(endpoint)));
  printer.print({
    text: row.join('  '),
    data: toRowData({ event, answer, endpoint }),
  });
}

/** A row for `--json`. */
export function toRowData({ event, answer, endpoint }: DeliveryRow): object {
  return { id: event.id, type: event.type, ...(endpoint !== undefined && { endpoint }), ...toData(answer) };
}

function toData(answer: EndpointAnswer): object {
  const { kind, elapsedMs } = answer;
  if (kind === 'reply')
    return {
      status: answer.status,
      outcome: answer.outcome,
      code: answer.code,
      fault: answer.fault,
      elapsedMs,
    };
  if (kind === 'unreachable') return { error: answer.reason, elapsedMs };
  return { error: kind, ...(kind === 'lost' && { fault: answer.fault }), elapsedMs };
}

/** Notes the meaning and the fix of each kind of answer that was not a success, once. */
export function noteUnaccepted(printer: Printer, answers: readonly EndpointAnswer[]): void {
  const meanings = answers.flatMap((answer) => meaningOf(answer) ?? []);
  for (const [meaning, count] of countAlike(meanings)) printer.note(`${count} ${meaning}`);
}

function meaningOf(answer: EndpointAnswer): string | undefined {
  const fault = faultOf(answer);
  if (fault !== undefined && isDelivered(answer))
    return `accepted although the sandbox made the signature wrong (fault ${fault}). The endpoint must verify each delivery over the bytes that it received.`;
  if (fault !== undefined && isSignatureRefused(answer))
    return `refused, as it must be: the sandbox made the signature wrong (fault ${fault}). The sandbox may retry it; its own output shows that.`;
  if (isWithoutEffect(answer)) {
    const outcome = outcomeOf(answer) ?? '';
    return `${outcome}: ${WITHOUT_EFFECT[outcome]}`;
  }
  if (answer.kind === 'lost') {
    return isAnswerLost(answer)
      ? `answer lost: the sandbox dropped the answer (fault ${answer.fault}), so the result is not known. The handler may have run. The sandbox may retry it; its own output shows that.`
      : `lost: the sandbox has the fault ${answer.fault}, so the attempt did not reach the handler. The sandbox may retry it; its own output shows that.`;
  }
  const failure = answer.kind === 'unreachable' ? connectionFailure(answer.reason) : undefined;
  return failure && `without an answer: ${failure.what}. ${failure.fix}`;
}

/** Whether the endpoint's inbox holds the event back until its retry time. */
export function isNotDue(answer: EndpointAnswer): boolean {
  return answer.kind === 'reply' && answer.code === 'ERR_EVENT_NOT_DUE';
}

/** Notes the events that wait for their retry time, if any, and how to run them now. */
export function noteNotDue(printer: Printer, ids: Iterable<string>): void {
  const [first, ...more] = new Set(ids);
  if (first === undefined) return;
  const id = toPlain(first);
  const [wait, command, them] =
    more.length === 0
      ? [`${id} failed before and waits for its retry time.`, id, 'it']
      : [`${id} and ${more.length} more failed before and wait for their retry time.`, `${id} …`, 'them'];
  printer.note(
    `${wait} \`stablehooks inbox requeue --inbox INBOX ${command}\` makes ${them} due now: then send ${them} again, or let the app's redrive run ${them}.`,
  );
}

/** Counts deliveries by answer, and summarises the times of the replies. */
export function summarise(rows: readonly Pick<DeliveryRow, 'answer'>[], total: number): string {
  // Without the time of a silence, which would make each silence a kind of its own.
  const words = rows.map(({ answer }) => (answer.kind === 'silence' ? 'no answer' : describeAnswer(answer)));
  const kinds = countAlike(words).map(([kind, count]) => `${count} × ${kind}`);
  const sent = `${rows.length} of ${total} sent`;
  if (rows.length === 0) return sent;
  const times = rows.flatMap(({ answer }) => (answer.kind === 'reply' ? answer.elapsedMs : []));
  if (times.length === 0) return `${sent}: ${toPlain(kinds.join(', '))}`;
  const who = times.length === rows.length ? '' : 'replies: ';
  return `${sent}: ${toPlain(kinds.join(', '))}; ${who}median ${percentile(times, 0.5)} ms, 99 % within ${percentile(times, 0.99)} ms`;
}

/** The smallest value that at least this share of the values does not exceed (the nearest-rank method). */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
}

/** Counts equal strings, in the order in which they first occur. */
export function countAlike(values: readonly string[]): readonly (readonly [value: string, count: number])[] {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts];
}
