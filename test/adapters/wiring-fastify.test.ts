import fastify from 'fastify';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { createObserved, deliverTo, expectUnavailable, secret } from './observed.js';

describe('Fastify', () => {
  test('the plugin changes neither parsers nor limits of other routes, and uses its own limit', async () => {
    const { receiver } = createObserved();
    const app = fastify({ bodyLimit: 20 });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    app.post('/orders', async (request) => ({ got: request.body }));
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret, url: '/hooks' });

    const taken = await app.inject(signed);
    const order = await app.inject({ method: 'POST', url: '/orders', payload: { a: 1 } });
    const large = await app.inject({ method: 'POST', url: '/orders', payload: { a: 'x'.repeat(50) } });
    const odd = await app.inject({
      method: 'POST',
      url: '/orders',
      headers: { 'content-type': 'x/y' },
      body: 'z',
    });

    expect(taken.statusCode).toBe(200);
    expect(order.json()).toEqual({ got: { a: 1 } });
    expect(large.statusCode).toBe(413);
    expect(odd.statusCode).toBe(415);
  });

  test('replies of the receiver pass through the onSend hooks of the app', async () => {
    const { receiver } = createObserved();
    const app = fastify();
    const seen: string[] = [];
    app.addHook('onSend', async (_, reply, payload) => {
      seen.push(`${reply.statusCode} ${payload}`);
      reply.header('x-seen', 'yes');
    });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret, url: '/hooks' });

    const reply = await app.inject(signed);

    expect(reply.headers['x-seen']).toBe('yes');
    expect(seen).toEqual(['200 {"outcome":"handled"}']);
  });

  test('a delivery whose stream a hook has read is answered 500 ERR_BODY_UNAVAILABLE', async () => {
    const { receiver, outcomes } = createObserved();
    const app = fastify();
    app.addHook('preParsing', async (_request, _reply, payload) => {
      for await (const _ of payload);
    });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    await app.ready();

    const message = await expectUnavailable(await deliverTo(app.server), outcomes);

    expect(message).toContain('fastify-raw-body');
  });

  test('a delivery whose bytes a hook put into rawBody is handled', async () => {
    const { receiver } = createObserved();
    const app = fastify();
    app.addHook('preParsing', async (request, _reply, payload) => {
      const chunks: Buffer[] = [];
      for await (const chunk of payload) chunks.push(chunk);
      Object.assign(request, { rawBody: Buffer.concat(chunks) });
    });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    await app.ready();

    expect((await deliverTo(app.server)).status).toBe(200);
  });
});
