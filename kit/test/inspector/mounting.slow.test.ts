/** The blocks of docs/inspector.md that mount the inspector, with real requests. */
import { EventEmitter, once } from 'node:events';
import type { RequestListener } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox, type Inspector } from 'stablehooks-kit/inspector';
import { expect, test } from 'vitest';
import { serve } from '../http-server.js';
import { readStream, send } from './http.js';

const FRAMEWORKS: Readonly<Record<string, (inspector: Inspector) => Promise<RequestListener>>> = {
  async Express(inspector) {
    const listener = getRequestListener(inspector.fetch);
    const app = express();
    app.all(['/ops/hooks', '/ops/hooks/*path'], (request, response) => listener(request, response));
    app.use(express.json());
    return app;
  },
  async Fastify(inspector) {
    const listener = getRequestListener(inspector.fetch);
    const app = fastify();
    app.register(async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, _body, done) => done(null));
      scope.all('/ops/hooks*', async (request, reply) => {
        reply.hijack();
        await listener(request.raw, reply.raw);
      });
    });
    await app.ready();
    return app.routing;
  },
  async Hono(inspector) {
    const app = new Hono();
    app.all('/ops/hooks/*', (context) => inspector.fetch(context.req.raw));
    return getRequestListener(app.fetch);
  },
  async 'node:http'(inspector) {
    const listener = getRequestListener(inspector.fetch);
    return (request, response) => {
      if (request.url?.startsWith('/ops/hooks')) listener(request, response);
      else response.writeHead(404).end();
    };
  },
};

test.for(Object.keys(FRAMEWORKS))(
  'in %s the page, its files, its stream and its actions work',
  async (name) => {
    const inbox = memoryInbox();
    const event = exampleEvent('transfer.settled');
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.fail(claim.lease, { error: 'closed', retryAfterMs: null });
    const ran: string[] = [];
    const looks = new EventEmitter();
    const looked = once(looks, 'look');
    const watched = {
      ...inbox,
      async pollState() {
        looks.emit('look');
        return inbox.pollState();
      },
    };
    const inspector = createInspector({
      source: fromInbox(watched, {
        name: 'payments',
        pollIntervalMs: 100,
        run: async ({ id }) => {
          ran.push(id);
          return 'handled';
        },
      }),
      actions: ['run'],
      authorize: ({ headers }) => headers.get('cookie') === 'session=ada',
      basePath: '/ops/hooks',
    });
    const mounted = await FRAMEWORKS[name]?.(inspector);
    await using server = await serve(mounted ?? (() => undefined));
    const headers = { cookie: 'session=ada' };
    const base = `${server.url}/ops/hooks`;

    expect((await send(base, { headers })).headers['location']).toBe('/ops/hooks/');
    expect((await send(`${base}/`)).status).toBe(403);
    const page = await send(`${base}/`, { headers });
    const [, script = ''] = /src="\.\/(assets\/[^"]+)"/.exec(page.text) ?? [];
    expect((await send(`${base}/${script}`, { headers })).headers['content-type']).toMatch(
      /^text\/javascript/,
    );

    const stream = await readStream(`${base}/api/stream`, { headers });
    await stream.next('open');
    await looked;
    const { actionToken } = JSON.parse((await send(`${base}/api/session`, { headers })).text);
    const answer = await send(`${base}/api/actions/run`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', 'x-inspector-token': actionToken },
      body: JSON.stringify({ id: event.id }),
    });
    expect(answer.text).toBe('{"outcome":"handled"}');
    expect(ran).toEqual([event.id]);
    expect(await stream.next('changed')).toBe('changed {"kind":"changed","view":"inbox"}');
    inspector.close();
  },
);
