import { readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { migratePostgres } from 'stablehooks/inboxes/postgres';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Listening, listenAsProcess, run } from '../child.js';
import { blocksOf, sectionOf } from '../project/markdown.js';
import { startPostgres } from '../services/postgres.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const example = fileURLToPath(new URL('../../examples/next-postgres', import.meta.url));
const kit = fileURLToPath(new URL('../../kit', import.meta.url));
const next = createRequire(import.meta.url).resolve('next/dist/bin/next');
const secret = 'whsec_example';

/** Routes that are added to the Next example, so that one build serves both. The contract runs on `next` in `test/consumers`. */
const ROUTES = {
  'pages/api/hooks.ts': `
    import { toNextApiRoute } from 'stablehooks/next';
    import { receiver } from '../../lib/receiver';
    export const config = { api: { bodyParser: false } };
    export default toNextApiRoute(receiver);`,
  'app/edge/route.ts': `
    import { createReceiver } from 'stablehooks';
    import { toNextRoute } from 'stablehooks/next';
    export const runtime = 'edge';
    const handlers = { 'transfer.settled': () => undefined };
    export const { POST } = toNextRoute(() =>
      createReceiver({ secret: process.env['STABLEHOOKS_SECRET'] ?? '', handlers }),
    );`,
  'pages/api/parsed.ts': `
    import { createReceiver } from 'stablehooks';
    import { toNextApiRoute } from 'stablehooks/next';
    export default toNextApiRoute(createReceiver({ secret: '${secret}', handlers: {} }));`,
  'app/recorded/route.ts': `
    import { after } from 'next/server';
    import { createReceiver, memoryInbox } from 'stablehooks';
    import { toNextRoute } from 'stablehooks/next';
    const receiver = createReceiver({
      secret: '${secret}',
      answer: 'recorded',
      inbox: { ...memoryInbox(), durable: true },
      handlers: { 'transfer.settled': () => undefined },
    });
    export const { POST } = toNextRoute(receiver, { after });`,
  // A build renders such a route, as it does every GET with `cacheComponents`.
  'app/rendered/route.ts': `
    import { toCronRoute } from 'stablehooks/catch-up';
    const logger = { warn: console.log, error: console.log };
    const poller = () => { throw new Error('A build must not make the poller.'); };
    export const revalidate = 60;
    export const { GET } = toCronRoute(poller, { secret: () => '${secret}', logger });`,
  'app/ops/hooks/[[...path]]/route.ts': mountInspector(),
  'next.config.ts': `
    export default { skipTrailingSlashRedirect: true, serverExternalPackages: ['stablehooks-kit'] };`,
};

/** The block of docs/inspector.md, with an inspector. */
function mountInspector(): string {
  const page = readFileSync(new URL('../../docs/inspector.md', import.meta.url), 'utf8');
  const block = blocksOf(sectionOf(page, 'Frameworks'), 'ts').find((text) =>
    text.includes('export const GET'),
  );
  const inspector = `
    import { memoryInbox } from 'stablehooks';
    import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
    const inspector: Inspector = createInspector({
      source: fromInbox(memoryInbox(), { name: 'payments' }),
      actions: ['requeue'],
      authorize: () => true,
      basePath: '/ops/hooks',
    });`;
  return block?.replace('declare const inspector: Inspector;', inspector) ?? '';
}

let app: string | undefined;
let built = '';
let server: Listening | undefined;
let postgres: Awaited<ReturnType<typeof startPostgres>> | undefined;
const at = (path: string) => `${server?.address}${path}`;

beforeAll(async () => {
  // Inside the package, so that `stablehooks` resolves, in a folder that git ignores.
  await mkdir(join(here, '.next'), { recursive: true });
  app = await mkdtemp(join(here, '.next/app-'));
  const isBuilt = (path: string) => ['.next', 'next-env.d.ts'].includes(basename(path));
  await cp(example, app, { recursive: true, filter: (path) => !isBuilt(path) });
  for (const [path, source] of Object.entries(ROUTES)) {
    await mkdir(join(app, path, '..'), { recursive: true });
    await writeFile(join(app, path), source);
  }
  // As it is installed: Next bundles a linked package, also one that it is told to leave out.
  for (const path of ['package.json', 'dist']) {
    await cp(join(kit, path), join(app, 'node_modules/stablehooks-kit', path), { recursive: true });
  }
  postgres = await startPostgres();
  const pool = new pg.Pool({ connectionString: postgres.url });
  await migratePostgres(pool);
  await pool.query('CREATE TABLE ledger (event_id text PRIMARY KEY, type text, amount numeric)');
  await pool.end();
  built = await run({ args: [next, 'build'], cwd: app });
  // A client that waits on a busy machine must not use a connection that Next closes at that moment.
  const args = [next, 'start', '--port', '0', '--hostname', '127.0.0.1', '--keepAliveTimeout', '300000'];
  server = await listenAsProcess({
    args,
    cwd: app,
    env: { STABLEHOOKS_SECRET: secret, DATABASE_URL: postgres.url },
  });
});

afterAll(async () => {
  expect(server?.complaints()).not.toMatch(/unhandled|uncaught/i);
  await server?.stop();
  await postgres?.stop();
  if (app !== undefined) await rm(app, { recursive: true });
});

test.each(['/hooks', '/api/hooks', '/edge'])(
  'the route %s of the Next example answers a signed event 200 and a forged one 401',
  async (path) => {
    const event = exampleEvent('transfer.settled');
    const signed = await signedRequest(event, { secret, url: at(path) });
    const forged = await signedRequest(event, { secret: 'guessed', url: at(path) });

    expect((await fetch(forged.url, forged)).status).toBe(401);
    expect((await fetch(signed.url, signed)).status).toBe(200);
  },
);

test('a route with `after` of Next compiles and answers 202 once the event is recorded', async () => {
  const url = at('/recorded');
  const reply = await fetch(url, await signedRequest(exampleEvent('transfer.settled'), { secret, url }));

  expect(reply.status).toBe(202);
  expect(await reply.json()).toEqual({ outcome: 'queued' });
});

test('a cron route that the build renders is left to Next without a line, and answers requests', async () => {
  expect(built).toMatch(/ƒ \/rendered/);
  expect(built).not.toContain('stablehooks:');
  expect((await fetch(at('/rendered'))).status).toBe(401);
});

test('the inspector of docs/inspector.md is mounted: its page, its files and its actions work', async () => {
  expect((await fetch(at('/ops/hooks'))).url).toBe(at('/ops/hooks/'));
  const page = await (await fetch(at('/ops/hooks/'))).text();
  const [, script = ''] = /src="\.\/(assets\/[^"]+)"/.exec(page) ?? [];
  expect((await fetch(at(`/ops/hooks/${script}`))).headers.get('content-type')).toMatch(/^text\/javascript/);
  const session = await fetch(at('/ops/hooks/api/session'));
  const [cookie = ''] = session.headers.get('set-cookie')?.split(';') ?? [];
  const { actionToken } = await session.json();
  const answer = await fetch(at('/ops/hooks/api/actions/requeue'), {
    method: 'POST',
    headers: { cookie, 'x-inspector-token': actionToken, 'content-type': 'application/json' },
    body: '{"filter":{"ids":["evt_1"]}}',
  });
  expect(await answer.json()).toMatchObject({ matched: 0, changed: 0 });
});

test('a Next API route that does not turn off the body parser is answered 500 at once, and one line says how to do it', async () => {
  const url = at('/api/parsed');
  const signed = await signedRequest(exampleEvent('transfer.settled'), { secret, url });
  const reply = await fetch(url, signed);

  expect(reply.status).toBe(500);
  expect(await reply.json()).toMatchObject({ code: 'ERR_BODY_UNAVAILABLE' });
  const lines = () => server?.complaints().match(/^stablehooks: .*ERR_BODY_UNAVAILABLE.*$/gm);
  const fix = 'Write `export const config = { api: { bodyParser: false } };` in the route file itself';
  await expect.poll(lines).toEqual([expect.stringContaining(fix)]);
});

test('the Edge bundle of the Next example contains no module of Node', async () => {
  const chunks = join(app ?? '', '.next/server/edge/chunks');
  const names = (await readdir(chunks)).filter((name) => name.endsWith('.js'));
  const sources = await Promise.all(names.map((name) => readFile(join(chunks, name), 'utf8')));

  expect(sources.join('')).toContain('ERR_BODY_UNAVAILABLE');
  expect(sources.join('')).not.toMatch(/raw-body|iconv|readableDidRead/);
});
