import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { migratePostgres } from 'stablehooks/inboxes/postgres';
import { describe, expect, test } from 'vitest';
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

describe.concurrent('certify passes an app that does each event once', () => {
  test('the program for Express and SQLite', async () => {
    await using folder = await makeFolder();
    const { exitCode, result } = await certify('server.ts', {
      cwd: `${examples}/express-sqlite`,
      database: folder.at('app.db'),
      flags: ['--junit', folder.at('junit.xml')],
    });
    expect(result.points.map(({ effect }) => effect)).toEqual(result.points.map(() => 'once'));
    expect(result.points).toContainEqual(
      expect.objectContaining({
        point: expect.objectContaining({ text: 'COMMIT', at: 'stablehooks' }),
        side: 'before',
      }),
    );
    expect(result.scenarios.map(({ effect }) => effect)).toEqual(['once', 'once', 'once', 'once']);
    expect({ exitCode, notShown: result.notShown }).toEqual({ exitCode: 0, notShown: 0 });
    const junit = readFileSync(folder.at('junit.xml'), 'utf8');
    expect(junit.match(/<testcase /g)).toHaveLength(result.points.length + result.scenarios.length);
    expect(junit).toContain('failures="0" skipped="0"');
  });
});

describe.concurrent('certify names the line of an app that does not', () => {
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
  test.for([['row-before-work.ts', 'before: lost'] as const, ...atNight(night, [])])(
    '%s',
    async ([file, expected]) => {
      await using folder = await makeFolder();
      const { exitCode, result } = await certify(file, { database: folder.at('app.db'), flags: SOON });
      expect(exitCode).toBe(1);
      expect(caughtIn(file, result)).toContain(expected);
    },
  );

  test.runIf(atNight(true, false))('payout-without-key.ts', async ({ onTestFinished }) => {
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

  test.runIf(atNight(true, false)).for([
    ['autocommit-inside.ts', 'after: twice'],
    ['missing-await.ts', 'fails: lost'],
  ] as const)('%s', async ([file, expected], { onTestFinished }) => {
    const postgres = await startPostgres();
    onTestFinished(() => postgres.stop());
    const pool = new pg.Pool({ connectionString: postgres.url });
    await migratePostgres(pool);
    await pool.query('CREATE TABLE ledger (event_id text, amount text)');
    await pool.end();
    const { exitCode, result } = await certify(file, {
      database: 'env:DATABASE_URL',
      env: { DATABASE_URL: postgres.url },
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
