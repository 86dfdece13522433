/** The HTTP client of the adapter contract, and its checks of replies. */
import assert from 'node:assert/strict';
import { type Agent, request } from 'node:http';
import { connect } from 'node:net';
import {
  type EventType,
  SIGNATURE_HEADER,
  type SignatureEncoding,
  sign,
  type UnknownPayload,
  type WebhookEvent,
} from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { CONTRACT_MARKER, CONTRACT_SECRETS, type HandlerBehaviour } from './adapter-receiver.js';

/** A server that mounts `createContractReceiver()` with the adapter to test. */
export interface AdapterUnderTest {
  /** The `http:` URL where the receiver is mounted. */
  readonly url: string;
}

export interface RawRequest {
  /** @default 'POST' */
  readonly method?: string | undefined;
  /** An array is sent as several header lines; `undefined` omits a header. */
  readonly headers?: Readonly<Record<string, string | string[] | undefined>> | undefined;
  /** Bytes are sent with a content-length, an array of pieces is sent chunked. */
  readonly body?: Uint8Array | readonly Uint8Array[] | undefined;
  readonly agent?: Agent | undefined;
  /** Sends the headers and does not end the request, to see whether the reply waits for the body. @default false */
  readonly unfinished?: boolean | undefined;
}

export interface RawReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly text: string;
}

const REPLY_TIMEOUT_MS = 8_000;

/** An event for the contract receiver, with a unique id. */
export function contractEvent(
  payload: UnknownPayload & { readonly behaviour?: HandlerBehaviour } = {},
  type: EventType = 'transfer.settled',
): WebhookEvent {
  return exampleEvent(type, { payload: { behaviour: 'succeed', note: CONTRACT_MARKER, ...payload } });
}

/** The bytes of a string, or of any other value as JSON. */
export const bytesOf = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

/** The headers of a valid delivery of these bytes. */
export async function signedHeaders(
  body: Uint8Array,
  options: { readonly secret?: string; readonly encoding?: SignatureEncoding } = {},
): Promise<Record<string, string>> {
  const signature = await sign(body, { secret: CONTRACT_SECRETS[0], ...options });
  return { 'content-type': 'application/json', [SIGNATURE_HEADER]: signature };
}

/** Signs and sends bytes, a string, or any other value as JSON; `raw` overrides parts of the valid delivery. */
export async function sendSigned(
  adapter: AdapterUnderTest,
  content: unknown,
  raw: RawRequest = {},
): Promise<RawReply> {
  const body = content instanceof Uint8Array ? content : bytesOf(content);
  return sendRaw(adapter, { body, ...raw, headers: { ...(await signedHeaders(body)), ...raw.headers } });
}

export async function deliver(
  adapter: AdapterUnderTest,
  content: unknown,
  answer: Answer,
  raw: RawRequest = {},
): Promise<void> {
  assertAnswer(await sendSigned(adapter, content, raw), answer);
}

/** Sends one request and resolves with the complete reply, which can arrive before the request has ended. */
export function sendRaw({ url }: AdapterUnderTest, raw: RawRequest): Promise<RawReply> {
  const { method = 'POST', agent, body, unfinished = false } = raw;
  const pieces = body instanceof Uint8Array ? [body] : (body ?? []);
  const length = body instanceof Uint8Array ? { 'content-length': String(body.length) } : {};
  const entries = Object.entries({ ...length, ...raw.headers });
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of entries) if (value !== undefined) headers[name] = value;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: agent ?? false, timeout: REPLY_TIMEOUT_MS });
    const late = new Error(`The server did not reply within ${REPLY_TIMEOUT_MS} ms.`);
    sent.on('timeout', () => sent.destroy(late));
    sent.on('error', reject);
    sent.on('response', (reply) => {
      const chunks: Buffer[] = [];
      reply.on('data', (chunk: Buffer) => chunks.push(chunk));
      reply.on('error', reject);
      reply.on('end', () => {
        const { statusCode: status = 0, headers } = reply;
        resolve({ status, headers, text: Buffer.concat(chunks).toString() });
        if (unfinished) sent.destroy();
      });
    });
    if (unfinished) return sent.flushHeaders();
    for (const piece of pieces) sent.write(piece);
    sent.end();
  });
}

/**
 * Opens a connection and writes a valid delivery of `body` to it, up to byte `end` of the body. `closed` resolves to the
 * bytes that the server sent, and rejects when the server leaves the connection open.
 */
export async function openDelivery({ url }: AdapterUnderTest, body: Uint8Array, end = body.length) {
  const { hostname, port, pathname, host } = new URL(url);
  const headers = { host, 'content-length': String(body.length), ...(await signedHeaders(body)) };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const socket = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) });
  let answer = '';
  const closed = new Promise<string>((resolve, reject) => {
    socket.once('close', () => resolve(answer));
    socket.setTimeout(REPLY_TIMEOUT_MS, () => {
      reject(new Error(`The server did not close the connection within ${REPLY_TIMEOUT_MS} ms.`));
      socket.destroy();
    });
  });
  socket
    .on('error', () => undefined)
    .on('data', (chunk) => {
      answer += chunk;
    });
  await new Promise<void>((resolve) => {
    socket.write(`POST ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n`);
    socket.write(body.subarray(0, end), () => resolve());
  });
  return { socket, closed };
}

/** The status of each answer: an outcome, or the code of a problem. */
const STATUSES = {
  ...{ handled: 200, duplicate: 200, ignored: 200, parked: 200, dead: 200 },
  ...{ ERR_EVENT_MALFORMED: 400, ERR_BODY_TOO_LARGE: 413, ERR_BODY_ENCODED: 415 },
  ...{ ERR_SIGNATURE_MISSING: 401, ERR_SIGNATURE_MALFORMED: 401, ERR_SIGNATURE_MISMATCH: 401 },
  ...{
    ERR_BODY_UNAVAILABLE: 500,
    ERR_HANDLER_FAILED: 500,
    ERR_HANDLER_TIMEOUT: 500,
    ERR_PAYLOAD_INVALID: 500,
    ERR_EVENT_BUSY: 503,
  },
} as const;

export type Answer = keyof typeof STATUSES;

/** Checks a reply: an outcome alone, or RFC 9457 with a stable code, and nothing of the payload or the error. */
export function assertAnswer(reply: RawReply, answer: Answer): void {
  const summary = `The reply was ${reply.status} ${reply.text.slice(0, 200)}`;
  const status = STATUSES[answer];
  assertNothingDisclosed(reply);
  assert.equal(reply.status, status, summary);
  if (status === 200) {
    assert.equal(reply.text, JSON.stringify({ outcome: answer }), summary);
    return;
  }
  assert.match(String(reply.headers['content-type']), /^application\/problem\+json/, summary);
  const { code, status: said, ...rest }: Record<string, unknown> = JSON.parse(reply.text);
  assert.deepEqual([code, said, ...Object.keys(rest).sort()], [answer, status, 'outcome'], summary);
  if (status === 503) assert.match(String(reply.headers['retry-after']), /^[1-9]\d*$/, summary);
}

/** Checks that the reply contains no payload, no message or stack of an error, and no secret. */
function assertNothingDisclosed(reply: RawReply): void {
  const content = JSON.stringify(reply.headers) + reply.text;
  for (const secret of [CONTRACT_MARKER, ...CONTRACT_SECRETS]) {
    assert.ok(!content.includes(secret), 'The reply contains a payload, an error message or a secret.');
  }
  assert.doesNotMatch(reply.text, /\bat .*:\d+:\d+/, 'The reply contains a stack.');
}
