/** `stablehooks/fastify`: the adapter for Fastify 5, a plugin with its own scope. */
import type { FastifyInstance } from 'fastify';
import { ConfigError } from '../core/errors.js';
import { assertReceiver } from '../core/options.js';
import { toWebhookResponse } from '../receiver/outcome.js';
import type { Receiver } from '../receiver/receiver.js';
import { NodeWebhookRequest } from './node-body.js';

const FIX =
  'Do not read the stream before the receiver: remove the plugin that does, or set `encoding: false, runFirst: true` in fastify-raw-body, which then keeps the bytes.';

/** How `fastify-plugin` marks a plugin that is to run in the scope of its parent. */
const SKIP_OVERRIDE = Symbol.for('skip-override');

/** A content-type that every release of Fastify takes. */
const PLAIN_TYPE = /^[\w.+-]+\/[\w.+-]+(?:; ?charset=[\w-]+)?$/;

/** Fastify's instance, by a part of its shape, so that an app can have any release of Fastify or none. */
export interface FastifyScope {
  removeAllContentTypeParsers(): unknown;
}

/** A plugin for `app.register`. */
export type FastifyPlugin = (scope: FastifyScope) => Promise<void>;

/**
 * Makes a plugin that takes deliveries at its prefix. Parsers outside of its scope are not changed; inside there is
 * none, so that `maxBodyBytes` applies and not Fastify's `bodyLimit`. Responses pass through Fastify's hooks. The
 * receiver's lines go to `request.log`, unless the receiver has a `logger` or Fastify has none.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is not a receiver; and when the plugin is registered
 * wrapped in `fastify-plugin`, which takes its scope away.
 *
 * @example
 * ```ts
 * await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
 * ```
 */
export function toFastifyPlugin(receiver: Receiver): FastifyPlugin {
  assertReceiver('toFastifyPlugin', receiver, 'receive');
  const plugin: FastifyPlugin = async (scope) => {
    if (Reflect.get(plugin, SKIP_OVERRIDE) === true) {
      throw new ConfigError(
        "toFastifyPlugin: fastify-plugin takes the scope of the plugin away, so its prefix is lost and other routes lose their parsers. Register it unwrapped: `app.register(toFastifyPlugin(receiver), { prefix: '/hooks' })`.",
      );
    }
    const fastify = scope as FastifyInstance;
    fastify.removeAllContentTypeParsers();
    fastify.addContentTypeParser('*', (_request, _payload, done) => done(null));
    // Fastify answers 415 to a malformed content-type; the receiver ignores that header.
    fastify.addHook('preParsing', (request, _reply, payload, done) => {
      const { 'content-type': type } = request.raw.headers;
      // Fastify copies all headers at each use once one is set, so that this is left to requests that may need it.
      if (type !== undefined && !PLAIN_TYPE.test(type)) request.headers = { 'content-type': undefined };
      done(null, payload);
    });
    fastify.all('/', async (request, reply) => {
      const parsed = ['rawBody' in request ? request.rawBody : undefined, request.body];
      // Without a logger, Fastify's `log` has no level and one function that discards every line.
      const { log } = request;
      const logger = log.level === undefined && log.warn === log.error ? undefined : log;
      const delivery = new NodeWebhookRequest(request.raw, { parsed, fix: FIX, logger });
      const outcome = await receiver.receive(delivery);
      const { status, headers, body } = toWebhookResponse(outcome);
      return reply.code(status).headers(headers).send(body);
    });
  };
  return plugin;
}
