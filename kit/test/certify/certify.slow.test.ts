import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { migratePostgres } from 'stablehooks/inboxes/postgres';
import { describe, expect, onTestFinished, test } from 'vitest';
import { atNight } from '../../../test/nightly.js';
import { freePort } from '../../../test/services/free-port.js';
import { startPostgres } from '../../../test/services/postgres.js';
import { makeFolder, run } from '../command.js';

const apps = fileURLToPath(new URL('apps', import.meta.url));
const examples = fileURLToPath(new URL('../../../examples', import.meta.url));

interface Certified {
  readonly points: readonly {
    readonly point: { readonly text: string; readonly at: string };
    readonly side: string;
    readonly effect: string;
  }[];
  readonly scenarios: readonly { readonly scenario: string; readonly effect: string }[];
  readonly unseen: readonly { readonly what: string; readonly at: string }[];
  readonly failed: number;
  readonly notShown: number;
}

/** Certifies a program, and returns the exit code and what was printed as JSON. */
async function certify(
  file: string,
  {
    cwd = apps,
    database,
    env = {},
    flags = [],
  }: {
    readonly cwd?: string;
    readonly database: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly flags?: readonly string[];
  },
): Promise<{ readonly exitCode: number | null; readonly result: Certified }> {
  const port = String(await freePort());
  const { exitCode, stdout, stderr } = await run(
    [
      ...['certify', '--json', '--app', `'${process.execPath}' --import tsx ${file}`],
      ...['--url', `http://127.0.0.1:${port}/hooks`, '--database', database],
      ...['--effects', 'SELECT event_id, amount FROM ledger', ...flags],
    ],
    { cwd, env: { PORT: port, DB: database, STABLEHOOKS_INBOX: database, ...env } },
  );
  expect(stdout, stderr).not.toBe('');
  return { exitCode, result: JSON.parse(stdout) };
}

function lineOf(mark: string, file: string): string {
  const lines = readFileSync(`${apps}/${file}`, 'utf8').split('\n');
  return `${file}:${lines.findIndex((line) => line.endsWith(`// ${mark}`)) + 1}`;
}

/** The runs whose effect was not once, at the line that the app marks as wrong. */
function caughtIn(file: string, { points }: Certified) {
  const at = lineOf('wrong', file);
  return points
    .filter(({ point, effect }) => point.at === at && effect !== 'once' && effect !== 'not shown')
    .map(({ side, effect }) => `${side}: ${effect}`);
}

/** A Postgres with an inbox and a ledger until the end of the test. */
async function preparePostgres(): Promise<string> {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const pool = new pg.Pool({ connectionString: postgres.url });
  await migratePostgres(pool);
  await pool.query('CREATE TABLE ledger (event_id text, type text, amount text)');
  await pool.end();
  return postgres.url;
}

/** Starts the bank of the example until the end of the test. */
async function startBank(): Promise<string> {
  const BANK_PORT = String(await freePort());
  const bank = spawn(process.execPath, ['--import', 'tsx', 'bank-server.ts'], {
    cwd: `${examples}/payout`,
    env: { PATH: process.env['PATH'], BANK_PORT },
  });
  onTestFinished(() => void bank.kill());
  await once(bank.stdout, 'data');
  return `http://127.0.0.1:${BANK_PORT}/`;
}

interface Example {
  readonly name: string;
  /** @default the name */
  readonly folder?: string;
  /** The main file. @default server.ts */
  readonly file?: string;
  readonly needsPostgres?: boolean;
  /** Whether a handler pays at the bank. */
  readonly needsBank?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
  /** A call that must be among those before which the app was killed. */
  readonly call: { readonly text: unknown; readonly at: string };
  /** Where the calls are made that certify does not end. */
  readonly unseen?: readonly string[];
}

const INSERT = expect.stringMatching(/^insert into "?ledger"? /i);
const redeemed = ['--type', 'redeem.completed', '--effects'];

const nightly: readonly Example[] = [
  { name: 'fastify-postgres', needsPostgres: true, call: { text: INSERT, at: 'handlers.ts:10' } },
  { name: 'express-postgres', needsPostgres: true, call: { text: INSERT, at: 'handlers.ts:9' } },
  {
    name: 'lambda-postgres',
    file: 'dev.ts',
    needsPostgres: true,
    call: { text: INSERT, at: 'handlers.ts:10' },
  },
  { name: 'rotation', call: { text: INSERT, at: 'handlers.ts:11' } },
  {
    name: 'payout',
    needsBank: true,
    flags: [...redeemed, 'SELECT id, state FROM stablehooks_events'],
    call: { text: expect.stringMatching(/^POST /), at: 'bank.ts:9' },
  },
  {
    name: 'payout, as orders',
    folder: 'payout',
    needsBank: true,
    env: { PAYOUT_FORM: 'orders' },
    flags: [...redeemed, 'SELECT key, redeem, amount, payout IS NULL FROM orders'],
    call: { text: expect.stringMatching(/^INSERT INTO orders /), at: 'orders.ts:17' },
    // The payment, and its record, are made by a timer.
    unseen: ['bank.ts:9', 'orders.ts:44'],
  },
];

test.each<Example>([
  { name: 'express-sqlite', call: { text: 'COMMIT', at: 'stablehooks' } },
  ...atNight(nightly, []),
])(
  'certify passes the example $name',
  async ({ needsPostgres, needsBank, env = {}, flags = [], call, unseen = [], ...example }) => {
    const { name, folder = name, file = 'server.ts' } = example;
    await using temporary = await makeFolder();
    const database = needsPostgres ? await preparePostgres() : temporary.at('app.db');
    const { exitCode, result } = await certify(file, {
      cwd: `${examples}/${folder}`,
      database: needsPostgres ? 'env:DATABASE_URL' : database,
      env: { DATABASE_URL: database, BANK_URL: needsBank ? await startBank() : '', ...env },
      flags: ['--junit', temporary.at('junit.xml'), ...flags],
    });
    expect(result.points.map(({ effect }) => effect)).toEqual(result.points.map(() => 'once'));
    expect(result.points).toContainEqual(
      expect.objectContaining({ point: expect.objectContaining(call), side: 'before' }),
    );
    expect(result.scenarios.map(({ effect }) => effect)).toEqual(['once', 'once', 'once', 'once']);
    expect(result.unseen.map(({ at }) => at).sort()).toEqual(unseen);
    expect({ exitCode, notShown: result.notShown }).toEqual({
      exitCode: unseen.length > 0 ? 1 : 0,
      notShown: unseen.length,
    });
    const junit = readFileSync(temporary.at('junit.xml'), 'utf8');
    const count = result.points.length + result.scenarios.length + unseen.length;
    expect(junit.match(/<testcase /g)).toHaveLength(count);
    expect(junit).toContain(`failures="0" skipped="${unseen.length}"`);
  },
);

describe('certify names the line of an app that does not', () => {
  /** An effect that is lost is waited for at each point. */
  const SOON = ['--settle', '3s'];
  const night: readonly (readonly [file: string, expected: string])[] = [
    ['work-before-row.ts', 'after: twice'],
    ['answer-before-commit.ts', 'before: lost'],
    ['in-memory-set.ts', 'after: twice'],
    ['effect-after-answer.ts', 'before: lost'],
    ['two-databases.ts', 'before: lost'],
    ['swallowed-error.ts', 'fails: lost'],
  ];
  test.each([['row-before-work.ts', 'before: lost'] as const, ...atNight(night, [])])(
    '%s',
    async (file, expected) => {
      await using folder = await makeFolder();
      const { exitCode, result } = await certify(file, { database: folder.at('app.db'), flags: SOON });
      expect(exitCode).toBe(1);
      expect(caughtIn(file, result)).toContain(expected);
    },
  );

  test.runIf(atNight(true, false))('payout-without-key.ts', async () => {
    await using folder = await makeFolder();
    const bank = createServer((_request, response) => response.end('{}')).listen(0, '127.0.0.1');
    onTestFinished(() => void bank.close());
    await once(bank, 'listening');
    const BANK_URL = `http://127.0.0.1:${(bank.address() as AddressInfo).port}/payouts`;
    const { exitCode, result } = await certify('payout-without-key.ts', {
      database: folder.at('app.db'),
      env: { BANK_URL },
    });
    expect(exitCode).toBe(1);
    expect(caughtIn('payout-without-key.ts', result)).toContain('after: twice');
  });

  test.runIf(atNight(true, false)).each([
    ['autocommit-inside.ts', 'after: twice'],
    ['missing-await.ts', 'fails: lost'],
    // Drizzle runs a statement when no code of the app is on the stack.
    ['past-the-transaction.ts', 'after: twice'],
  ])('%s', async (file, expected) => {
    const { exitCode, result } = await certify(file, {
      database: 'env:DATABASE_URL',
      env: { DATABASE_URL: await preparePostgres() },
      flags: SOON,
    });
    expect(exitCode).toBe(1);
    expect(caughtIn(file, result)).toContain(expected);
  });
});

test.runIf(atNight(true, false))('certify does not pass what it could not end', async () => {
  await using folder = await makeFolder();
  const { exitCode, result } = await certify('outbox.ts', { database: folder.at('app.db') });
  expect(result.unseen.map(({ at }) => at)).toContain(lineOf('not shown', 'outbox.ts'));
  expect({ exitCode, failed: result.failed }).toEqual({ exitCode: 1, failed: 0 });
});
