/** `stablehooks/fastify`: the adapter for Fastify 5, a plugin with its own scope. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { toWebhookResponse } from '../receiver/outcome.js';
import { receive } from '../receiver/receive.js';
import { type ReceiverSource, toParts } from '../receiver/source.js';
import { drainUnread, NodeWebhookRequest } from './node-body.js';

const FIX =
  'Make sure that nothing reads the stream before the receiver. Remove the plugin that does so, or set `encoding: false, runFirst: true` in fastify-raw-body so that it keeps the bytes.';

/** A content-type that every release of Fastify accepts. */
const PLAIN_TYPE = /^[\w.+-]+\/[\w.+-]+(?:; ?charset=[\w-]+)?$/;

/** The part of a Fastify instance that the plugin uses: a structural type, so it compiles with and without Fastify. */
export interface FastifyScope {
  removeAllContentTypeParsers(): unknown;
}

/** A plugin for `app.register`. */
export type FastifyPlugin = (scope: FastifyScope) => Promise<void>;

/**
 * Creates a plugin that receives deliveries at the prefix you register it with. It reads the stream that `preParsing`
 * hooks return, and changes no parsers outside its own scope. `maxBodyBytes` replaces Fastify's `bodyLimit`. Responses
 * pass through Fastify's hooks. The receiver logs to `request.log`, unless it has its own `logger` or Fastify's logger is
 * disabled. Don't wrap the plugin in `fastify-plugin`, which would remove its scope.
 *
 * @param receiver - a receiver, or a function that creates one on the first delivery.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither.
 *
 * @example
 * ```ts
 * await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
 * ```
 */
export function toFastifyPlugin(receiver: ReceiverSource): FastifyPlugin {
  const parts = toParts('toFastifyPlugin', receiver);
  return async (scope) => {
    const fastify = scope as FastifyInstance;
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser('*', ({ raw }, stream, done) => {
      // Hooks before the handler may be asynchronous, and another listener may have set the stream flowing.
      stream.pause();
      if (stream !== raw) endWith(raw, stream);
      done(null, stream);
    });
    // Fastify responds with 415 to a malformed content-type, which the receiver does not care about.
    fastify.addHook('preParsing', (request, _reply, payload, done) => {
      const { 'content-type': type } = request.raw.headers;
      // Setting a header makes Fastify copy all headers at each use, so only do this for requests that may need it.
      if (type !== undefined && !PLAIN_TYPE.test(type)) request.headers = { 'content-type': undefined };
      done(null, payload);
    });
    fastify.all('/', async (request, reply) => {
      const { raw, log, body } = request;
      const stream = body instanceof Readable ? body : raw;
      // Later hooks see a body only if another hook left one.
      if (stream === body) request.body = undefined;
      // Without a logger, Fastify's `log` has no level and one function that discards every line.
      const logger = log.level === undefined && log.warn === log.error ? undefined : log;
      const delivery = new NodeWebhookRequest(raw, FIX, { stream, parsed: request, logger });
      const { status, headers, body: answer } = toWebhookResponse(await receive(parts, delivery));
      if (!raw.complete) await drainUnread(raw, reply.raw, stream);
      return reply.code(status).headers(headers).send(answer);
    });
  };
}

/** Ends a stream that a hook made of the request when the request is cut off. `pipe` does not do that. */
function endWith(raw: IncomingMessage, stream: Readable): void {
  raw.once('aborted', () => stream.destroy());
  // Readers recognise a cut-off request by this event. The error may come while no reader is listening.
  stream.once('close', () => stream.emit('aborted')).on('error', () => undefined);
}
