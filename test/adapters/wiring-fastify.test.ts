import fastify, { type FastifyInstance } from 'fastify';
import { createReceiver, type ReceiverOptions } from 'stablehooks';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { serveFastify } from './frameworks.js';
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

    const message = await expectUnavailable(await deliverTo(await serveFastify(receiver, app)), outcomes);

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

    expect((await deliverTo(await serveFastify(receiver, app))).status).toBe(200);
  });

  /** Sends a forged delivery to an app; `lines` are those of its receiver on the console. */
  async function forgedDelivery(app: FastifyInstance, options: Partial<ReceiverOptions> = {}) {
    const lines: string[] = [];
    const toConsole = vi.spyOn(console, 'warn').mockImplementation((line) => void lines.push(line));
    onTestFinished(() => toConsole.mockRestore());
    const receiver = createReceiver({ secret, handlers: {}, ...options });
    await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret: 'other', url: '/hooks' });
    expect((await app.inject(signed)).statusCode).toBe(401);
    return lines;
  }

  /** Options of Fastify's own logger, which is pino, and the lines that it writes. */
  function pinoLines() {
    const lines: Readonly<Record<string, unknown>>[] = [];
    const stream = { write: (line: string) => void lines.push(JSON.parse(line)) };
    return { lines, logger: { level: 'warn', stream } };
  }

  test("the receiver's line is in the output of Fastify's own logger with the id of the request, and not on the console", async () => {
    const { lines, logger } = pinoLines();

    const onConsole = await forgedDelivery(fastify({ logger }));

    expect(lines).toEqual([
      expect.objectContaining({
        level: 40,
        reqId: 'req-1',
        msg: expect.stringContaining('ERR_SIGNATURE_MISMATCH'),
      }),
    ]);
    expect(onConsole).toEqual([]);
  });

  test('the `logger` of the receiver has precedence over that of Fastify', async () => {
    const { lines, logger } = pinoLines();
    const own: string[] = [];
    const receiverLogger = { warn: (line: string) => void own.push(line), error: () => undefined };

    await forgedDelivery(fastify({ logger }), { logger: receiverLogger });

    expect(own).toEqual([expect.stringContaining('ERR_SIGNATURE_MISMATCH')]);
    expect(lines).toEqual([]);
  });

  test.each([
    { name: 'has `logger: false`', options: { logger: false } },
    { name: 'has no logger option', options: {} },
  ])("the receiver's line is on the console when Fastify $name", async ({ options }) => {
    const onConsole = await forgedDelivery(fastify(options));

    expect(onConsole).toEqual([expect.stringContaining('ERR_SIGNATURE_MISMATCH')]);
  });
});
