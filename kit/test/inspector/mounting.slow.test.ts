/** Runs the blocks of docs/inspector.md that mount the inspector, with real requests. */
import { EventEmitter, once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { RequestListener, Server } from 'node:http';
import { createRequire } from 'node:module';
import { compileFunction } from 'node:vm';
import { getRequestListener } from '@hono/node-server';
import express, { type Express } from 'express';
import type { FastifyInstance } from 'fastify';
import type { Hono } from 'hono';
import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox, type Inspector } from 'stablehooks-kit/inspector';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { blocksOf, sectionOf } from '../../../test/project/markdown.js';
import { serve } from '../http-server.js';
import { complete, fail } from '../inbox-states.js';
import { readStream, send } from './http.js';

/** The names that a block declares or exports. */
interface Mounted {
  readonly app?: unknown;
  readonly GET?: FetchHandler;
  readonly POST?: FetchHandler;
}
type FetchHandler = (request: Request) => Promise<Response>;

/** How a server gets what the block of a framework makes, in the order of the page. */
const FRAMEWORKS: Readonly<Record<string, (mounted: Mounted) => Promise<RequestListener | Server>>> = {
  async Express({ app }) {
    return (app as Express).use(express.json());
  },
  async Fastify({ app }) {
    const instance = app as FastifyInstance;
    await instance.ready();
    return instance.routing;
  },
  async Next({ GET, POST }) {
    return getRequestListener((request) => {
      const handler = request.method === 'GET' ? GET : POST;
      return handler?.(request) ?? Response.error();
    });
  },
  async Hono({ app }) {
    return getRequestListener((app as Hono).fetch);
  },
  async 'node:http'({ app }) {
    return app as Server;
  },
};

const page = readFileSync(new URL('../../../docs/inspector.md', import.meta.url), 'utf8');
const blocks = blocksOf(sectionOf(page, 'Frameworks'), 'ts');

/** Runs the block of a framework with this inspector, but for the line that listens on a fixed port. */
function runBlock(framework: string, inspector: Inspector): Mounted {
  const block = blocks[Object.keys(FRAMEWORKS).indexOf(framework)] ?? '';
  const { outputText } = ts.transpileModule(block.replace(/^app\.listen\(\d+\);$/m, ''), {
    compilerOptions: {
      module: ts.ModuleKind.CommonJS,
      target: ts.ScriptTarget.ES2022,
      esModuleInterop: true,
    },
  });
  const code = `${outputText}\nreturn { ...exports, app: typeof app === 'undefined' ? undefined : app };`;
  const run = compileFunction(code, ['require', 'exports', 'inspector']);
  return run(createRequire(import.meta.url), {}, inspector);
}

test('the page has a block for each of these frameworks', () => {
  expect(blocks).toHaveLength(Object.keys(FRAMEWORKS).length);
});

test.for(Object.keys(FRAMEWORKS))(
  'in %s the page, its files, its stream and its actions work',
  async (name) => {
    const inbox = memoryInbox();
    const event = exampleEvent('transfer.settled');
    await fail(inbox, event);
    const ran: string[] = [];
    const looks = new EventEmitter();
    const looked = once(looks, 'look');
    const watched = {
      ...inbox,
      async readNote(note: string) {
        looks.emit('look');
        return inbox.readNote(note);
      },
    };
    const inspector = createInspector({
      source: fromInbox(watched, {
        name: 'payments',
        pollIntervalMs: 100,
        run: async (given) => {
          ran.push(given.id);
          await complete(inbox, given);
          return 'handled';
        },
      }),
      actions: ['run'],
      authorize: ({ headers }) => headers.get('cookie')?.startsWith('session=ada') === true,
      basePath: '/ops/hooks',
    });
    const mounted = await FRAMEWORKS[name]?.(runBlock(name, inspector));
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
    const session = await send(`${base}/api/session`, { headers });
    const { actionToken } = JSON.parse(session.text);
    const [cookie = ''] = String(session.headers['set-cookie']).split(';');
    const answer = await send(`${base}/api/actions/run`, {
      method: 'POST',
      headers: {
        cookie: `${headers.cookie}; ${cookie}`,
        'content-type': 'application/json',
        'x-inspector-token': actionToken,
      },
      body: JSON.stringify({ filter: { ids: [event.id] } }),
    });
    expect(JSON.parse(answer.text)).toMatchObject({ changed: 1, outcomes: { handled: 1 } });
    expect(ran).toEqual([event.id]);
    expect(await stream.next('changed')).toBe('changed {"kind":"changed","view":"events"}');
    inspector.close();
  },
);
