/** Servers of frameworks, with a receiver at `/hooks`. */
import { createServer, type Server } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import express from 'express';
import express4 from 'express4';
import fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import Koa from 'koa';
import type { Receiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNextApiRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';
import { createFetchServer } from './fetch-server.js';

/** The server of a Fastify app with a receiver at `/hooks`. */
export async function serveFastify(receiver: Receiver, app: FastifyInstance = fastify()) {
  await app.register(toFastifyPlugin(receiver), { prefix: '/hooks' });
  await app.ready();
  return app.server;
}

interface Framework {
  readonly name: string;
  readonly serve: (receiver: Receiver) => Server | Promise<Server>;
}

/** Those that the adapter contract runs on. */
export const FRAMEWORKS: readonly Framework[] = [
  ...Object.entries({ 'Express 5': express, 'Express 4': express4 }).map(([name, framework]) => ({
    name,
    serve: (receiver: Receiver) => createServer(framework().all('/hooks', toExpressHandler(receiver))),
  })),
  { name: 'Fastify', serve: (receiver) => serveFastify(receiver) },
  { name: 'node:http', serve: (receiver) => createServer(toNodeHandler(receiver)) },
  {
    name: 'Koa',
    serve(receiver) {
      const app = new Koa();
      // Koa logs each sender that disconnects.
      app.silent = true;
      const handler = toNodeHandler(receiver);
      app.use(async (context) => {
        context.respond = false;
        await handler(context.req, context.res);
      });
      return createServer(app.callback());
    },
  },
  {
    name: 'Hono',
    serve(receiver) {
      const app = new Hono();
      const handler = toFetchHandler(receiver);
      app.all('/hooks', (context) => handler(context.req.raw));
      return createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server;
    },
  },
  {
    name: "the platform's own Request and Response",
    serve: (receiver) => createFetchServer(toFetchHandler(receiver)),
  },
];

/** All of them: those of the contract, and other ways to make a request of Node's. */
export const SERVERS: readonly Framework[] = [
  ...FRAMEWORKS,
  { name: 'the Pages Router', serve: (receiver) => createServer(toNextApiRoute(receiver)) },
  ...(['React Router 7', 'SvelteKit'] as const).map((name) => ({
    name,
    serve: (receiver: Receiver) => createFetchServer(toFetchHandler(receiver), name),
  })),
];
