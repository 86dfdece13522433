/** Wiring in fetch frameworks: a Request that was read, held or cut off. */
import type { Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import { Hono } from 'hono';
import { toFetchHandler } from 'stablehooks/fetch';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { createObserved, deliverTo, expectUnavailable, secret } from './observed.js';

describe('fetch', () => {
  test('a Hono middleware that parsed the body gets an answer at once', async () => {
    const { receiver, outcomes } = createObserved();
    const app = new Hono();
    const handler = toFetchHandler(receiver);
    app.use(async (context, next) => {
      await context.req.json();
      await next();
    });
    app.post('/hooks', (context) => handler(context.req.raw));
    const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false });

    const message = await expectUnavailable(await deliverTo(server as Server), outcomes);

    expect(message).toContain('handler(c.req.raw)');
  });

  test.each([
    { name: 'was read', meddle: (request: Request) => request.text() },
    { name: 'is held by a reader', meddle: async (request: Request) => request.body?.getReader() },
  ])('a Request whose body $name is unavailable, with and without a length', async ({ meddle }) => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    for (const length of [{}, { 'content-length': String(signed.body.length) }]) {
      const request = new Request(signed.toRequest(), { headers: { ...signed.headers, ...length } });
      await meddle(request);
      expect((await toFetchHandler(receiver)(request)).status).toBe(500);
    }
    expect(outcomes.map(({ error }) => error?.code)).toEqual([
      'ERR_BODY_UNAVAILABLE',
      'ERR_BODY_UNAVAILABLE',
    ]);
  });

  test('a stream that breaks off is incomplete', async () => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(signed.body.subarray(0, 10));
        controller.error(new Error('gone'));
      },
    });
    const init = { method: 'POST', headers: signed.headers, body, duplex: 'half' };

    expect((await toFetchHandler(receiver)(new Request(signed.url, init))).status).toBe(500);
    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
  });

  test('a body shorter than its declared length is incomplete', async () => {
    const { receiver, outcomes } = createObserved();
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const headers = { ...signed.headers, 'content-length': String(signed.body.length + 1) };

    await toFetchHandler(receiver)(new Request(signed.toRequest(), { headers }));

    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
  });

  test('a transfer-encoding overrules the declared length, and the limit holds', async () => {
    const { receiver, outcomes } = createObserved({ maxBodyBytes: 100 });
    const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const headers = { ...signed.headers, 'content-length': '10', 'transfer-encoding': 'chunked' };

    await toFetchHandler(receiver)(new Request(signed.toRequest(), { headers }));

    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_TOO_LARGE']);
  });

  test.each(['many', '5, 5', '-1'])('a length of %j says nothing, and the limit holds', async (length) => {
    const { receiver, outcomes } = createObserved({ maxBodyBytes: 1_000 });
    const headers = { 'x-service-signature': '0'.repeat(64), 'content-length': length };
    let sent = 0;
    const body = new ReadableStream({
      pull(controller) {
        sent += 500;
        controller.enqueue(new Uint8Array(500));
        if (sent >= 1_000_000) controller.close();
      },
    });
    const init = { method: 'POST', headers, body, duplex: 'half' };
    await toFetchHandler(receiver)(new Request('http://hooks.test/', init));
    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_TOO_LARGE']);
  });
});
