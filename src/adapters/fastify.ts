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

/** The part of a Fastify instance that the plugin needs. The type is structural, so it compiles even without Fastify. */
export interface FastifyScope {
  removeAllContentTypeParsers(): unknown;
}

/** A plugin for `app.register`. */
export type FastifyPlugin = (scope: FastifyScope) => Promise<void>;

/**
 * Creates a plugin that receives deliveries at the prefix with which you register it. The plugin reads the stream that
 * `preParsing` hooks return, and doesn't change parsers outside its own scope. The receiver's `maxBodyBytes` replaces
 * Fastify's `bodyLimit`. Responses pass through Fastify's hooks. The receiver logs to `request.log`, unless you passed it a
 * `logger` or disabled Fastify's logger. Don't wrap the plugin in `fastify-plugin`, because it would then have no scope of
 * its own.
 *
 * @param receiver - a receiver, or a function that creates the receiver on the first delivery.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither a receiver nor a function.
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
      // Paused, because hooks before the handler can be asynchronous, and another listener may have started the stream.
      stream.pause();
      if (stream !== raw) endWith(raw, stream);
      done(null, stream);
    });
    // Fastify responds with 415 to a malformed content-type, but the receiver accepts any content-type.
    fastify.addHook('preParsing', (request, _reply, payload, done) => {
      const { 'content-type': type } = request.raw.headers;
      // Only if needed, because setting a header makes Fastify copy all headers each time they are used.
      if (type !== undefined && !PLAIN_TYPE.test(type)) request.headers = { 'content-type': undefined };
      done(null, payload);
    });
    fastify.all('/', async (request, reply) => {
      const { raw, log, body } = request;
      const stream = body instanceof Readable ? body : raw;
      // Later hooks must not mistake the stream for a parsed body.
      if (stream === body) request.body = undefined;
      // If Fastify's logger is disabled, `log` has no level, and the same function discards the lines of every method.
      const logger = log.level === undefined && log.warn === log.error ? undefined : log;
      const delivery = new NodeWebhookRequest(raw, FIX, { stream, parsed: request, logger });
      const { status, headers, body: answer } = toWebhookResponse(await receive(parts, delivery));
      if (!raw.complete) await drainUnread(raw, reply.raw, stream);
      return reply.code(status).headers(headers).send(answer);
    });
  };
}

/** `pipe` doesn't end the derived stream when the request is cut off. */
function endWith(raw: IncomingMessage, stream: Readable): void {
  raw.once('aborted', () => stream.destroy());
  // Readers detect a cut-off request by its `aborted` event. An error may be emitted while no reader is listening.
  stream.once('close', () => stream.emit('aborted')).on('error', () => undefined);
}
