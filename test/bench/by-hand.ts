/**
 * Servers written by hand that keep the promises of a receiver with the memory inbox, each on its own framework: the raw
 * bytes and their limit, the signature, the checks of the event, one claim and one completion per event, a time limit
 * for the handler, and problem+json. What the adapters are compared with.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import express, { type ErrorRequestHandler } from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { SECRET } from './secret.js';

const MAX_BODY_BYTES = 1_048_576;
const HANDLER_TIMEOUT_MS = 10_000;
const CAPACITY = 100_000;
/** What the frameworks themselves bound by one timer for all connections. */
const REQUEST_TIMEOUT_MS = 30_000;

/** What is answered. */
export interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
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

function success(outcome: string): Reply {
  return { status: 200, type: 'application/json', body: `{"outcome":"${outcome}"}` };
}

function problem(status: number, title: string, code: string): Reply {
  return { status, type: 'application/problem+json', body: JSON.stringify({ title, status, code }) };
}

const TOO_LARGE = problem(413, 'Content Too Large', 'too_large');

/** What refuses a request before its body is read. */
function refuse(encoding: string | undefined, length: string | undefined): Reply | undefined {
  if (encoding !== undefined) return problem(415, 'Unsupported Media Type', 'encoded');
  if (Number(length ?? 0) > MAX_BODY_BYTES) return TOO_LARGE;
  return undefined;
}

/** Verifies a delivery and runs its handler once. */
export type Deliver = (body: Uint8Array, signature: string | undefined) => Promise<Reply>;

/** What all of these servers do between the body and the reply. */
export function createDeliver(): Deliver {
  const inbox = new Map<string, 'claimed' | 'done'>();
  return async (body, signature) => {
    if (signature === undefined || !/^[0-9a-f]{64}$/i.test(signature)) {
      return problem(401, 'Unauthorized', 'malformed');
    }
    const mac = createHmac('sha256', SECRET).update(body).digest();
    if (!timingSafeEqual(Buffer.from(signature, 'hex'), mac)) return problem(401, 'Unauthorized', 'mismatch');
    const event = parse(body);
    if (event === undefined) return problem(400, 'Bad Request', 'event');
    const state = inbox.get(event.id);
    if (state === 'done') return success('duplicate');
    if (state === 'claimed') return problem(503, 'Service Unavailable', 'busy');
    if (inbox.size >= CAPACITY) inbox.delete(inbox.keys().next().value ?? '');
    inbox.set(event.id, 'claimed');
    try {
      const handler = handlers.get(event.type);
      if (handler !== undefined) await withTimeLimit(handler(event));
      inbox.set(event.id, 'done');
      return success('handled');
    } catch (error) {
      console.error(error);
      inbox.delete(event.id);
      return problem(500, 'Internal Server Error', 'handler');
    }
  };
}

function parse(body: Uint8Array): Event | undefined {
  try {
    const value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
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
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** The body; `undefined` when it is too large. */
function readAll(request: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_BODY_BYTES) {
        chunks.length = 0;
        resolve(undefined);
      } else {
        chunks.push(chunk);
      }
    });
    request.on('end', () => resolve(Buffer.concat(chunks)));
    request.on('error', reject);
    request.on('close', () => reject(new Error('The sender has closed the connection.')));
  });
}

function headerOf(request: IncomingMessage, name: string): string | undefined {
  return request.headers[name]?.toString();
}

function write(response: ServerResponse, { status, type, body }: Reply): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
}

export function nodeByHand(): Server {
  const deliver = createDeliver();
  return createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, async (request, response) => {
    try {
      if (request.method !== 'POST') {
        return write(response, problem(405, 'Method Not Allowed', 'method'));
      }
      const refused = refuse(headerOf(request, 'content-encoding'), headerOf(request, 'content-length'));
      if (refused !== undefined) return write(response, refused);
      const body = await readAll(request);
      const signature = headerOf(request, 'x-service-signature');
      write(response, body === undefined ? TOO_LARGE : await deliver(body, signature));
    } catch (error) {
      console.error(error);
      response.destroy();
    }
  });
}

export function expressByHand(): Server {
  const app = express();
  const deliver = createDeliver();
  const raw = express.raw({ type: () => true, limit: MAX_BODY_BYTES, inflate: false });
  app.post('/hooks', raw, async (request, response) => {
    const body = request.body ?? Buffer.alloc(0);
    write(response, await deliver(body, headerOf(request, 'x-service-signature')));
  });
  const onError: ErrorRequestHandler = (error, _request, response, _next) => {
    write(response, problem(error.status ?? 500, 'The body cannot be read', 'body'));
  };
  app.use(onError);
  return createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, app);
}

export async function fastifyByHand(): Promise<Server> {
  const deliver = createDeliver();
  const app = fastify({ bodyLimit: MAX_BODY_BYTES, requestTimeout: REQUEST_TIMEOUT_MS });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.setErrorHandler<{ readonly statusCode?: number }>((error, _request, reply) => {
    const { status, type, body } = problem(error.statusCode ?? 500, 'The body cannot be read', 'body');
    reply.code(status).type(type).send(body);
  });
  app.post<{ Body: Buffer | undefined }>('/hooks', async (request, reply) => {
    const refused = refuse(headerOf(request.raw, 'content-encoding'), undefined);
    const signature = headerOf(request.raw, 'x-service-signature');
    const answer = refused ?? (await deliver(request.body ?? Buffer.alloc(0), signature));
    return reply.code(answer.status).header('content-type', answer.type).send(answer.body);
  });
  await app.ready();
  return app.server;
}

export function honoByHand(): Hono {
  const deliver = createDeliver();
  const app = new Hono();
  app.post('/hooks', async ({ req }) => {
    // A body without a length would have to be read as a stream, which is three times as slow.
    const length = req.header('content-length') ?? 'Infinity';
    const answer =
      refuse(req.header('content-encoding'), length) ??
      (await deliver(new Uint8Array(await req.arrayBuffer()), req.header('x-service-signature')));
    return new Response(answer.body, { status: answer.status, headers: { 'content-type': answer.type } });
  });
  return app;
}
