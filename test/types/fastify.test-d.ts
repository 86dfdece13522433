/** The compiler accepts the plugin in every kind of Fastify app. Compiled by `npm run check`, never run. */
import fastify, { type FastifyTypeProviderDefault } from 'fastify';
import { createReceiver } from 'stablehooks';
import { toFastifyPlugin } from 'stablehooks/fastify';

const plugin = toFastifyPlugin(createReceiver({ secret: 's', handlers: {} }));

const app = fastify({ logger: true });
await app.register(plugin, { prefix: '/hooks' });
await app.register(plugin);
await fastify({ http2: true }).register(plugin, { prefix: '/hooks' });
await fastify({ https: {} }).withTypeProvider<FastifyTypeProviderDefault>().register(plugin);
app.register(async (scope) => {
  await scope.register(plugin, { prefix: '/hooks' });
});
// @ts-expect-error an option of another type
await app.register(plugin, { prefix: 1 });
