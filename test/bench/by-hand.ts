/**
 * Servers as a careful engineer writes them by hand, which keep the promises of a receiver with the memory inbox: the raw
 * bytes and their limit, the signature, the checks of the event, one claim and one completion per event, a time limit for
 * the handler, and problem+json. The adapters are compared with them.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import express from 'express';
import { SECRET } from './secret.js';

const MAX_BODY_BYTES = 1_048_576;
const HANDLER_TIMEOUT_MS = 10_000;
const CAPACITY = 100_000;
/** The time of a body: Node bounds it by one timer for all connections. */
const REQUEST_TIMEOUT_MS = 30_000;

interface Reply {
  readonly status: number;
  readonly body: string;
  readonly headers: { readonly 'content-type': string; readonly 'content-length': number };
}

interface Event {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly payload: object;
}

const handlers = new Map<string, (event: Event) => Promise<void>>([
  ['transfer.settled', async () => undefined],
]);

function reply(status: number, type: string, value: object): Reply {
  const body = JSON.stringify(value);
  return { status, body, headers: { 'content-type': type, 'content-length': Buffer.byteLength(body) } };
}
const success = (outcome: string) => reply(200, 'application/json', { outcome });
const problem = (status: number, title: string, code: string) =>
  reply(status, 'application/problem+json', { title, status, code });

const HANDLED = success('handled');
const DUPLICATE = success('duplicate');
const BUSY = problem(503, 'Service Unavailable', 'busy');
const FAILED = problem(500, 'Internal Server Error', 'handler');
const NO_EVENT = problem(400, 'Bad Request', 'event');
const MALFORMED = problem(401, 'Unauthorized', 'malformed');
const MISMATCH = problem(401, 'Unauthorized', 'mismatch');
const NOT_POST = problem(405, 'Method Not Allowed', 'method');
const TOO_LARGE = problem(413, 'Content Too Large', 'too_large');
const ENCODED = problem(415, 'Unsupported Media Type', 'encoded');

const SIGNATURE = /^[0-9a-f]{64}$/i;
const decoder = new TextDecoder('utf-8', { fatal: true });

function refuse(
  method: string | undefined,
  encoding: string | undefined,
  length: string | undefined,
): Reply | undefined {
  if (method !== 'POST') return NOT_POST;
  if (encoding !== undefined) return ENCODED;
  if (length !== undefined && Number(length) > MAX_BODY_BYTES) return TOO_LARGE;
  return undefined;
}

export type Deliver = (body: Uint8Array, signature: string | undefined) => Promise<Reply>;

/** The part between the body and the reply, which all of these servers share. */
export function createDeliver({ capacity = CAPACITY } = {}): Deliver {
  const inbox = new Map<string, 'claimed' | 'done'>();
  // One iterator: a new one would pass all the holes that evictions left.
  const oldest = inbox.keys();
  return async (body, signature) => {
    if (signature === undefined || !SIGNATURE.test(signature)) return MALFORMED;
    const mac = createHmac('sha256', SECRET).update(body).digest();
    if (!timingSafeEqual(Buffer.from(signature, 'hex'), mac)) return MISMATCH;
    const event = parse(body);
    if (event === undefined) return NO_EVENT;
    const state = inbox.get(event.id);
    if (state === 'done') return DUPLICATE;
    if (state === 'claimed') return BUSY;
    if (inbox.size >= capacity) inbox.delete(oldest.next().value ?? '');
    inbox.set(event.id, 'claimed');
    try {
      const handler = handlers.get(event.type);
      if (handler !== undefined) await withTimeLimit(handler(event));
      inbox.set(event.id, 'done');
      return HANDLED;
    } catch (error) {
      console.error(error);
      inbox.delete(event.id);
      return FAILED;
    }
  };
}

function parse(body: Uint8Array): Event | undefined {
  try {
    const value = JSON.parse(decoder.decode(body));
    const { id, type, created_at, payload } = value;
    const isEvent =
      typeof id === 'string' &&
      id !== '' &&
      typeof type === 'string' &&
      !Number.isNaN(Date.parse(created_at)) &&
      typeof payload === 'object' &&
      payload !== null;
    return isEvent ? value : undefined;
  } catch {
    return undefined;
  }
}

function withTimeLimit(work: Promise<void>): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('The handler takes too long.')), HANDLER_TIMEOUT_MS);
    work.then(
      () => {
        clearTimeout(timer);
        resolve();
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** Reads the body; `TOO_LARGE` if it exceeds the limit, `undefined` if the sender is gone. */
function readBody(request: IncomingMessage): Promise<Buffer | Reply | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const end = (result: Buffer | Reply | undefined) => {
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone);
      resolve(result);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_BODY_BYTES) end(TOO_LARGE);
      else chunks.push(chunk);
    };
    const onEnd = () => end(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, size));
    const onGone = () => end(undefined);
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone);
  });
}

const headerOf = (request: IncomingMessage, name: string) => request.headers[name]?.toString();

/** The listener of node:http, which Express can mount as well. */
function createListener() {
  const deliver = createDeliver();
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const encoding = headerOf(request, 'content-encoding');
    let answer = refuse(request.method, encoding, headerOf(request, 'content-length'));
    if (answer === undefined) {
      const body = await readBody(request);
      if (body === undefined) return void response.destroy();
      answer = 'status' in body ? body : await deliver(body, headerOf(request, 'x-service-signature'));
    }
    response.writeHead(answer.status, answer.headers).end(answer.body);
  };
}

export function nodeByHand(): Server {
  return createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, createListener());
}

export function expressByHand(): Server {
  const app = express();
  app.post('/hooks', createListener());
  return createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, app);
}
