/** `stablehooks/fastify`: the adapter for Fastify 5, a plugin in a scope of its own. */
import type { IncomingMessage } from 'node:http';
import type { Receiver } from '../receiver/receiver.js';
import { toReply } from '../receiver/reply.js';
import { toIncoming } from './node-delivery.js';

/** The least of Fastify's request. */
interface RequestLike {
  readonly raw: IncomingMessage;
  readonly body?: unknown;
  readonly rawBody?: unknown;
  headers: object;
}

/** The least of Fastify's reply. */
interface ReplyLike {
  code(status: number): this;
  headers(values: Readonly<Record<string, string>>): this;
  send(body: string): this;
}

/** The least of a Fastify instance. */
interface FastifyLike {
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    parser: (request: RequestLike, payload: IncomingMessage, done: (error: null) => void) => void,
  ): unknown;
  addHook(name: 'preParsing', hook: (request: RequestLike) => Promise<void>): unknown;
  all(path: string, handler: (request: RequestLike, reply: ReplyLike) => Promise<ReplyLike>): unknown;
}

const CURE =
  'Nothing may read the stream before the receiver: take it out of the plugin that does (in fastify-raw-body `encoding: false, runFirst: true` keeps the bytes).';

/**
 * Makes a plugin that takes deliveries at its prefix. Parsers elsewhere stay as they are; in its own scope
 * there is none, so that `limitBytes` counts and not Fastify's `bodyLimit`. Replies pass through Fastify's hooks.
 *
 * @example
 * ```ts
 * await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
 * ```
 */
export function toFastifyPlugin(receiver: Receiver): (fastify: FastifyLike) => Promise<void> {
  return async (fastify) => {
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser('*', (_request, _payload, done) => done(null));
    // Fastify answers 415 to a content-type that it cannot read; what the sender calls the body is no matter here.
    fastify.addHook('preParsing', async (request) => {
      request.headers = { ...request.headers, 'content-type': undefined };
    });
    fastify.all('/', async (request, reply) => {
      const parsed = [request.rawBody, request.body];
      const outcome = await receiver.receive(toIncoming(request.raw, { parsed, cure: CURE }));
      const { status, headers, body } = toReply(outcome);
      return reply.code(status).headers(headers).send(body);
    });
  };
}
