/** What a secret function sees of the path and query, where the receiver is mounted below a prefix or in a gateway. */
import { createServer, type Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import express from 'express';
import express4 from 'express4';
import fastify from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import type { Receiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { type LambdaEvent, toLambdaHandler } from 'stablehooks/lambda';
import { toNextApiRoute, toNextRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { createFetchServer } from './fetch-server.js';
import { serveFastify } from './frameworks.js';
import { listen } from './listening.js';
import { createObserved, secret } from './observed.js';

function createSeeing() {
  const seen: [path: string, query: [string, string][], tenant: string | null][] = [];
  const { receiver, outcomes } = createObserved({
    secret: ({ path, query, headers }) => {
      seen.push([path, [...query], headers.get('x-tenant')]);
      return secret;
    },
  });
  return { receiver, outcomes, seen };
}

const TARGET = '/api/v1/hooks/acme?plan=2&plan=3';

const MOUNTED: readonly {
  readonly name: string;
  readonly mount: (receiver: Receiver) => Server | Promise<Server>;
}[] = [
  ...[
    { name: 'Express 4', framework: express4 },
    { name: 'Express 5', framework: express },
  ].map(({ name, framework }) => ({
    name: `a router of ${name}`,
    mount(receiver: Receiver) {
      const router = framework.Router();
      router.use('/hooks', toExpressHandler(receiver));
      return createServer(framework().use('/api/v1', router));
    },
  })),
  {
    name: 'the prefixes of Fastify',
    async mount(receiver) {
      const app = fastify();
      await app.register(
        async (scope) => scope.register(toFastifyPlugin(receiver), { prefix: '/hooks/:tenant' }),
        { prefix: '/api/v1' },
      );
      await app.ready();
      return app.server;
    },
  },
  {
    name: 'rewriteUrl of Fastify',
    mount: (receiver) => serveFastify(receiver, fastify({ rewriteUrl: () => '/hooks' })),
  },
  {
    name: 'a path that Koa has changed, with the original one on the request',
    mount(receiver) {
      const handler = toNodeHandler(receiver);
      const app = new Koa().use(async (context) => {
        context.path = '/';
        context.respond = false;
        await handler(Object.assign(context.req, { originalUrl: context.originalUrl }), context.res);
      });
      return createServer(app.callback());
    },
  },
  {
    name: 'a route of Hono',
    mount(receiver) {
      const handler = toFetchHandler(receiver);
      const hooks = new Hono().post('/:tenant', (context) => handler(context.req.raw));
      const app = new Hono().route('/api/v1/hooks', hooks);
      return createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server;
    },
  },
  { name: 'node:http', mount: (receiver) => createServer(toNodeHandler(receiver)) },
  { name: 'the App Router', mount: (receiver) => createFetchServer(toNextRoute(receiver).POST) },
  { name: 'the Pages Router', mount: (receiver) => createServer(toNextApiRoute(receiver)) },
];

test.each(MOUNTED)('a secret function sees the whole path below $name', async ({ mount }) => {
  const { receiver, seen } = createSeeing();
  const { url, close } = await listen(await mount(receiver));
  const signed = await signedRequest(exampleEvent('transfer.settled'), { secret });
  const headers = { ...signed.headers, 'X-Tenant': 'acme' };
  const reply = await fetch(new URL(TARGET, url), { method: 'POST', headers, body: signed.body });
  await close();

  expect(reply.status).toBe(200);
  expect(seen).toEqual([
    [
      '/api/v1/hooks/acme',
      [
        ['plan', '2'],
        ['plan', '3'],
      ],
      'acme',
    ],
  ]);
});

const http = { http: { method: 'POST' } };

test.each<{
  readonly name: string;
  readonly event: object;
  readonly path: string;
  readonly query?: [string, string][];
}>([
  {
    name: 'payload format 1.0, with its stage',
    event: {
      httpMethod: 'POST',
      path: '/hooks/acme',
      requestContext: { path: '/prod/hooks/acme' },
      queryStringParameters: { plan: '3', name: 'a&b=c' },
      multiValueQueryStringParameters: { plan: ['2', '3'], name: ['a&b=c'] },
    },
    path: '/prod/hooks/acme',
    query: [
      ['plan', '2'],
      ['plan', '3'],
      ['name', 'a&b=c'],
    ],
  },
  {
    name: 'payload format 1.0, without a query',
    event: {
      httpMethod: 'POST',
      path: '/hooks',
      queryStringParameters: null,
      multiValueQueryStringParameters: null,
    },
    path: '/hooks',
  },
  {
    name: 'payload format 2.0',
    event: { rawPath: '/prod/hooks/acme', rawQueryString: 'name=a%26b&plan=2', requestContext: http },
    path: '/prod/hooks/acme',
    query: [
      ['name', 'a&b'],
      ['plan', '2'],
    ],
  },
  {
    name: 'payload format 2.0, whose decoded path contains a question mark',
    event: { rawPath: '/hooks/acme?admin=1#x', rawQueryString: '', requestContext: http },
    path: '/hooks/acme%3Fadmin=1%23x',
  },
  {
    name: 'a load balancer, which does not decode the query',
    event: {
      httpMethod: 'POST',
      path: '/hooks',
      requestContext: { elb: {} },
      queryStringParameters: { 'n%61me': 'a%26b', plus: 'a+b' },
    },
    path: '/hooks',
    query: [
      ['name', 'a&b'],
      ['plus', 'a b'],
    ],
  },
  { name: 'an event without a path', event: { requestContext: http }, path: '' },
  {
    name: 'an event with values of other types',
    event: {
      rawPath: 7,
      path: {},
      rawQueryString: null,
      queryStringParameters: { a: 1, b: { toString: 1 } },
      requestContext: http,
    },
    path: '',
  },
])(
  'on Lambda, a secret function sees the path and the query of $name',
  async ({ event, path, query = [] }) => {
    const { receiver, seen } = createSeeing();
    const { headers, body } = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const handler = toLambdaHandler(receiver);
    const whole = { ...event, headers, body: body.toString(), isBase64Encoded: false };

    expect((await handler(whole as unknown as LambdaEvent)).statusCode).toBe(200);
    expect(seen).toEqual([[path, query, null]]);
  },
);
