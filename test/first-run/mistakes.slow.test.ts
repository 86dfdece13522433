import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { root } from '../project/source.js';
import { freePort } from '../services/free-port.js';
import { startPostgres } from '../services/postgres.js';
import { EXPRESS } from './readme.js';
import { paste, type Running } from './terminal.js';

const SECRET = 'whsec_first_run';
const PAYLOAD = 'content-of-the-payload';
const TIMEOUT_MS = 60_000;

const express = EXPRESS.program;

/** Replaces a part of a program that must be in it. */
function plant(program: string, right: string, wrong: string): string {
  expect(program).toContain(right);
  return program.replace(right, wrong);
}

const plantAbove = (program: string, line: string, above: string) =>
  plant(program, line, `${above}\n${line}`);

/** A program that runs, and where it takes deliveries. */
interface Program extends Running {
  readonly url: string;
}

/** Starts a program in a folder where both packages are installed, as `server.mjs`, on a free port. */
async function start(program: string, { secret = SECRET } = {}): Promise<Program> {
  const folder = await mkdtemp(join(tmpdir(), 'mistake-'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const port = String(await freePort());
  await writeFile(join(folder, 'server.mjs'), program.replaceAll('3000', port));
  const running = paste(`export STABLEHOOKS_SECRET='${secret}'\nexec node server.mjs`, folder);
  onTestFinished(async () => {
    await running.stop();
    await rm(folder, { recursive: true });
  });
  return { ...running, url: `http://127.0.0.1:${port}/hooks` };
}

async function startListening(program: string, options?: Parameters<typeof start>[1]): Promise<Program> {
  const running = await start(program, options);
  await running.printed(/Listening on /, AbortSignal.timeout(TIMEOUT_MS));
  return running;
}

async function deliver(
  url: string,
  { secret = SECRET, header = 'X-SERVICE-Signature' } = {},
): Promise<string> {
  const event = exampleEvent('transfer.settled', { payload: { note: PAYLOAD } });
  const bytes = new TextEncoder().encode(JSON.stringify(event));
  const { method, headers, body } = await signedRequest(bytes, { secret, url, header });
  const reply = await fetch(url, { method, headers, body });
  const text = await reply.text();
  expect(text).not.toContain(PAYLOAD);
  return `${reply.status} ${/ERR_\w+/.exec(text)?.[0] ?? ''}`.trim();
}

/** Ends a program, or waits for its end, and returns the lines of this package: those of its logger and of what it threw. */
async function linesOf(running: Running, { stop = true } = {}): Promise<readonly string[]> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  // Written before the answer, and read after it.
  if (stop) {
    await running.printed(/^stablehooks: .*\n/m, timeout);
    await running.stop();
  }
  const { output } = await running.ended(timeout);
  for (const content of [SECRET, PAYLOAD]) expect(output).not.toContain(content);
  return output.split('\n').filter((line) => /^stablehooks: |^\w*Error: |Error \[ERR_/.test(line));
}

describe('a mistake that a delivery shows is one line in the log', () => {
  test.each<{
    readonly mistake: string;
    readonly program: string;
    readonly sent?: Parameters<typeof deliver>[1];
    readonly answer: string;
    readonly line: RegExp;
  }>([
    {
      mistake: 'express.json() above the receiver',
      program: plantAbove(express, "app.post('/hooks'", 'app.use(express.json());'),
      answer: '500 ERR_BODY_UNAVAILABLE',
      line: /express\.json.*app\.post\('\/hooks', toExpressHandler\(receiver\)\); app\.use\(express\.json\(\)\);`\.$/,
    },
    {
      mistake: 'a signature header of another name',
      program: express,
      sent: { header: 'X-Acme-Signature' },
      answer: '401 ERR_SIGNATURE_MISSING',
      line: /no X-SERVICE-Signature header\. Check the name in `signature\.header`/,
    },
    {
      mistake: 'a secret function whose environment variable is not set',
      program: plant(express, 'process.env.STABLEHOOKS_SECRET ??', '() => process.env.STABLEHOOKS_SECRT ??'),
      answer: '500 ERR_CONFIG_INVALID',
      line: /`secret` is empty\. Check its environment variable\./,
    },
  ])('$mistake', async ({ program, sent, answer, line }) => {
    const running = await startListening(program);
    expect(await deliver(running.url, sent)).toBe(answer);
    expect(await linesOf(running)).toEqual([expect.stringMatching(line)]);
  });
});

test('a secret of an environment variable that is not set ends the program with one line', async () => {
  const program = plant(express, "process.env.STABLEHOOKS_SECRET ?? ''", 'process.env.STABLEHOOKS_SECRT');
  const running = await start(program);
  expect(await linesOf(running, { stop: false })).toEqual([
    expect.stringMatching(/`secret` must be given: check the environment variable that it comes from\.$/),
  ]);
  expect((await running.ended(AbortSignal.timeout(TIMEOUT_MS))).code).toBe(1);
});

describe('a mistake at the database is one line in the log', () => {
  const handler = "(event) => console.log('settled', event.id)";
  const setUp = 'const receiver = createReceiver({';

  test('a handler that queries a pool of one connection, which its own transaction holds', async () => {
    const postgres = await startPostgres();
    onTestFinished(() => postgres.stop());
    const above = [
      "import pg from 'pg';",
      "import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';",
      `const pool = new pg.Pool({ connectionString: '${postgres.url}', max: 1 });`,
      'await migratePostgres(pool);',
    ].join('\n');
    const options = '  inbox: postgresInbox(pool, { transactional: true }),\n  handlerTimeoutMs: 500,';
    const queries = plant(express, handler, "async () => { await pool.query('SELECT 1'); }");
    const running = await startListening(
      plantAbove(plantAbove(queries, '  handlers: {', options), setUp, above),
    );
    expect(await deliver(running.url)).toBe('500 ERR_HANDLER_TIMEOUT');
    const [first] = await linesOf(running);
    expect(first).toMatch(
      /In a transaction, run queries through `tx`, because the pool may have no other free/,
    );
  });

  test("a handler's own transaction on the connection of the SQLite inbox", async () => {
    const above = [
      "import Database from 'libsql';",
      "import { sqliteInbox } from 'stablehooks/inboxes/sqlite';",
      "const db = new Database('inbox.db');",
    ].join('\n');
    const opened = plant(express, handler, "async () => { db.exec('BEGIN'); await undefined; }");
    const program = plantAbove(
      plantAbove(opened, '  handlers: {', '  inbox: sqliteInbox(db),'),
      setUp,
      above,
    );
    const running = await startListening(program);
    expect(await deliver(running.url)).toBe('503 ERR_INBOX_FAILED');
    await running.printed(/Give the inbox its own connection\.\n/, AbortSignal.timeout(TIMEOUT_MS));
  });
});

test('quotes in the secret, which no line of the receiver can show, are found by doctor', async () => {
  const { url } = await startListening(express, { secret: `"${SECRET}"` });
  const doctor = join(root, 'node_modules/stablehooks-kit/dist/main.js');
  const checked = paste(`export STABLEHOOKS_SECRET='${SECRET}'\nexec node ${doctor} doctor ${url}`, tmpdir());
  const { code, output } = await checked.ended(AbortSignal.timeout(TIMEOUT_MS));
  expect(code).toBe(1);
  expect(output).toMatch(
    /^genuine: .*the other side has double quotes around it\. Set both sides to the same string\.$/m,
  );
  expect(output).not.toContain(SECRET);
});
