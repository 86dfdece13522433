/** `stablehooks/fastify`: the adapter for Fastify 5, a plugin in a scope of its own. */
import type { FastifyPluginAsync } from 'fastify';
import type { Receiver } from '../receiver/receiver.js';
import { toWebhookResponse } from '../receiver/reply.js';
import { toWebhookRequest } from './node-delivery.js';

const FIX =
  'Nothing may read the stream before the receiver: take it out of the plugin that does (in fastify-raw-body `encoding: false, runFirst: true` keeps the bytes).';

/**
 * Makes a plugin that takes deliveries at its prefix. Parsers elsewhere stay as they are; in its own scope
 * there is none, so that `maxBodyBytes` counts and not Fastify's `bodyLimit`. Replies pass through Fastify's hooks.
 *
 * @example
 * ```ts
 * await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
 * ```
 */
export function toFastifyPlugin(receiver: Receiver): FastifyPluginAsync {
  return async (fastify) => {
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser('*', (_request, _payload, done) => done(null));
    // Fastify answers 415 to a content-type that it cannot read; what the sender calls the body is no matter here.
    fastify.addHook('preParsing', (request, _reply, payload, done) => {
      request.headers = { ...request.headers, 'content-type': undefined };
      done(null, payload);
    });
    fastify.all('/', async (request, reply) => {
      const parsed = ['rawBody' in request ? request.rawBody : undefined, request.body];
      const outcome = await receiver.receive(toWebhookRequest(request.raw, { parsed, fix: FIX }));
      const { status, headers, body } = toWebhookResponse(outcome);
      return reply.code(status).headers(headers).send(body);
    });
  };
}
