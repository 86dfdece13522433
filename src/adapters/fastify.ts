/** `stablehooks/fastify`: the adapter for Fastify 5, a plugin with its own scope. */
import type { FastifyPluginAsync } from 'fastify';
import { assertReceiver } from '../core/options.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import { toWebhookRequest } from './node-body.js';

const FIX =
  'Do not read the stream before the receiver: remove the plugin that does, or set `encoding: false, runFirst: true` in fastify-raw-body, which then keeps the bytes.';

/**
 * Makes a plugin that takes deliveries at its prefix. Parsers outside of its scope are not changed; inside there is
 * none, so that `maxBodyBytes` applies and not Fastify's `bodyLimit`. Responses pass through Fastify's hooks.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is not a receiver.
 *
 * @example
 * ```ts
 * await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
 * ```
 */
export function toFastifyPlugin(receiver: Receiver): FastifyPluginAsync {
  assertReceiver('toFastifyPlugin', receiver, 'receive');
  return async (fastify) => {
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser('*', (_request, _payload, done) => done(null));
    // Fastify answers 415 to a malformed content-type; the receiver ignores that header.
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
