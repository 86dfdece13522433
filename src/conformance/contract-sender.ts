/** The sender of the adapter contract: HTTP as bad as it comes, and the checks of what came back. */
import assert from 'node:assert/strict';
import { type Agent, request } from 'node:http';
import { connect } from 'node:net';
import type { EventType, UnknownPayload, WebhookEvent } from '../core/events.js';
import { SIGNATURE_HEADER, type SignatureEncoding, sign } from '../core/signature.js';
import { exampleEvent } from '../testing/example-event.js';
import { type Behaviour, CONTRACT_MARKER, CONTRACT_SECRETS } from './contract-receiver.js';

/** Where the server under test takes deliveries. */
export interface Target {
  readonly url: string;
}

/** One promise of an adapter. `run` rejects when the server at `url` breaks it. */
export interface ContractCase {
  readonly name: string;
  run(target: Target): Promise<void>;
}

/** What came back. */
export interface HttpReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
}

/** Headers to send; several values are sent as several lines. */
export type SentHeaders = Readonly<Record<string, string | string[]>>;

/** What to send; `undefined` leaves a header out. */
export interface Sending {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  /** Several pieces are sent chunked, one is sent with its length. */
  readonly body?: Uint8Array | readonly Uint8Array[];
  readonly agent?: Agent;
  /** Sends the headers and no end, to see whether the reply waits for the body. */
  readonly unfinished?: boolean;
}

/** No case waits longer than this for a reply. */
const PATIENCE_MS = 8_000;

/** An event for the contract receiver, with its own id. */
export function contractEvent(
  payload: UnknownPayload & { readonly behaviour?: Behaviour } = {},
  type: EventType = 'transfer.settled',
): WebhookEvent {
  return exampleEvent(type, { payload: { behaviour: 'succeed', note: CONTRACT_MARKER, ...payload } });
}

export function bytesOf(value: unknown): Buffer {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
}

/** The headers of an honest delivery of these bytes. */
export async function signedHeaders(
  body: Uint8Array,
  options: { readonly secret?: string; readonly encoding?: SignatureEncoding } = {},
): Promise<Record<string, string>> {
  const signature = await sign(body, { secret: CONTRACT_SECRETS[0], ...options });
  return { 'content-type': 'application/json', [SIGNATURE_HEADER]: signature };
}

/** Signs a value (as JSON), text or bytes, and sends it. `headers` go over those of an honest delivery. */
export async function deliver({ url }: Target, content: unknown, sending: Sending = {}): Promise<HttpReply> {
  const body = content instanceof Uint8Array ? content : bytesOf(content);
  const headers = { ...(await signedHeaders(body)), ...sending.headers };
  return send({ url }, { body, ...sending, headers });
}

/** Sends one request and waits for the whole reply, which may come before the request is whole. */
export function send({ url }: Target, sending: Sending): Promise<HttpReply> {
  const { method = 'POST', agent, body, unfinished = false } = sending;
  const pieces = body instanceof Uint8Array ? [body] : (body ?? []);
  const length = body instanceof Uint8Array ? { 'content-length': String(body.length) } : {};
  const entries = Object.entries({ ...length, ...sending.headers });
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of entries) if (value !== undefined) headers[name] = value;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: agent ?? false, timeout: PATIENCE_MS });
    sent.on('timeout', () => sent.destroy(new Error(`No reply within ${PATIENCE_MS} ms.`)));
    sent.on('error', reject);
    sent.on('response', (reply) => {
      const chunks: Buffer[] = [];
      reply.on('data', (chunk: Buffer) => chunks.push(chunk));
      reply.on('error', reject);
      reply.on('end', () => {
        resolve({
          status: reply.statusCode ?? 0,
          headers: reply.headers,
          text: Buffer.concat(chunks).toString(),
        });
        if (unfinished) sent.destroy();
      });
    });
    if (unfinished) return sent.flushHeaders();
    for (const piece of pieces) sent.write(piece);
    sent.end();
  });
}

/** Writes the headers of an honest delivery and the first bytes of its body on a socket of its own. */
export async function openDelivery(
  { url }: Target,
  { body, until = body.length }: { readonly body: Uint8Array; readonly until?: number },
) {
  const { hostname, port, pathname, host } = new URL(url);
  const headers = { host, 'content-length': String(body.length), ...(await signedHeaders(body)) };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => undefined).resume();
  await new Promise<void>((resolve) => {
    socket.write(`POST ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n`);
    socket.write(body.subarray(0, until), () => resolve());
  });
  return { socket, closed };
}

/** Checks a reply of success: its status, its outcome, and that it says nothing else. */
export function assertOutcome(
  reply: HttpReply,
  { status, outcome }: { status: number; outcome: string },
): void {
  assertSilent(reply);
  assert.equal(reply.text, JSON.stringify({ outcome }), describe(reply));
  assert.equal(reply.status, status, describe(reply));
}

/** Checks a reply of failure: RFC 9457 with a stable code, and nothing of the error itself. */
export function assertProblem(reply: HttpReply, { status, code }: { status: number; code: string }): void {
  assertSilent(reply);
  assert.equal(reply.status, status, describe(reply));
  assert.match(String(reply.headers['content-type']), /^application\/problem\+json/, describe(reply));
  const problem: Record<string, unknown> = JSON.parse(reply.text);
  assert.deepEqual(Object.keys(problem).sort(), ['code', 'outcome', 'status', 'title'], describe(reply));
  assert.equal(problem['code'], code, describe(reply));
  assert.equal(problem['status'], status, describe(reply));
  if (status === 503) assert.match(String(reply.headers['retry-after']), /^[1-9]\d*$/, describe(reply));
}

/** Neither a payload, nor an error's message or stack, nor a secret is in the reply. */
export function assertSilent(reply: HttpReply): void {
  const said = JSON.stringify(reply.headers) + reply.text;
  for (const secret of [CONTRACT_MARKER, ...CONTRACT_SECRETS]) {
    assert.ok(!said.includes(secret), 'The reply repeats a payload, an error or a secret.');
  }
  assert.doesNotMatch(reply.text, /\bat .*:\d+:\d+/, 'The reply holds a stack.');
}

function describe({ status, text }: HttpReply): string {
  return `The reply was ${status} ${text.slice(0, 200)}`;
}
