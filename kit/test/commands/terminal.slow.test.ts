/** The output of each command in a real terminal of 80 columns. */
import { symlink, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { sign } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run, SECRET } from '../command.js';
import { findClosedUrl } from '../http-server.js';
import { startEndpoint, startService } from '../service.js';
import { openSqlite } from '../sqlite-file.js';
import { runInTerminal } from '../terminal.js';

const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url));

/** What differs between runs, and the word that replaces it. */
const VARIABLE: readonly (readonly [RegExp, string])[] = [
  [/\b(evt|wal)_[\w-]+/g, '$1_ID'],
  [/\b0x[0-9a-f]{40}\b/g, 'ADDRESS'],
  [/\b[0-9a-f]{64}\b/g, 'SIGNATURE'],
  [/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'],
  [/\b\d\d:\d\d:\d\d(\.\d+)?/g, 'TIME'],
  [/127\.0\.0\.1:\d+/g, '127.0.0.1:PORT'],
  [/\?token=[\w-]+/g, '?token=TOKEN'],
  [/\b\d+(\.\d+)? ?(ms|s)\b/g, 'N ms'],
  [/\bseed \d+/g, 'seed N'],
  [/\b\d+(ms|[dhms])( \d+[hms])?(?= |$)/g, 'AGE'],
  // Of simultaneous deliveries of one event, one is handled.
  [/(?:(?:\d+ × )?(?:200 handled|200 duplicate|503 ERR_EVENT_BUSY)(?:, | |$)){2,}/g, 'ONE HANDLED '],
];

/** The words without how lines are broken and columns are filled, which depends on the length of what differs. */
function toWords(rows: readonly string[]): string {
  const words = rows.join(' ').replaceAll(/\s+/g, ' ').trim();
  return VARIABLE.reduce((all, [pattern, word]) => all.replaceAll(pattern, word), words);
}

/** A word that alone is longer than the terminal is wide, such as a signature, cannot be shown in one row. */
function isUnavoidable(row: string, columns: number): boolean {
  return row.split(' ').some((word) => word.length > columns - 20);
}

interface Scenario {
  readonly args: readonly string[];
  readonly exitCode: number;
  readonly interruptAt?: RegExp;
}

const SCENARIOS: readonly Scenario[] = [
  { args: ['sandbox', '--port', '0', '--to', 'ENDPOINT'], exitCode: 130, interruptAt: /Ctrl-C/ },
  { args: ['trigger', 'transfer.settled', '--to', 'ENDPOINT', '--duplicate'], exitCode: 0 },
  { args: ['trigger', 'transfer.settled', '--to', 'CLOSED'], exitCode: 3 },
  { args: ['trigger', 'redeem.failed', '--to', 'ENDPOINT', '--forge'], exitCode: 0 },
  {
    args: ['listen', '--to', 'ENDPOINT', '--since', '1h'],
    exitCode: 130,
    interruptAt: /evt_\w+[\s\S]*200 handled/,
  },
  { args: ['events', 'list'], exitCode: 0 },
  { args: ['events', 'replay', '--all', '--to', 'ENDPOINT'], exitCode: 0 },
  { args: ['catch-up', '--to', 'ENDPOINT', '--inbox', 'new.db', '--since', '1h'], exitCode: 0 },
  { args: ['gaps', 'list', '--inbox', 'app.db'], exitCode: 1 },
  {
    args: [
      'gaps',
      'acknowledge',
      '--inbox',
      'app.db',
      '--from',
      '2026-01-01',
      '--by',
      'me',
      '--reason',
      'why',
    ],
    exitCode: 2,
  },
  {
    args: [
      'reconcile',
      '--ledger',
      'ledger.csv',
      '--inbox',
      'app.db',
      '--since',
      '1h',
      '--amount-column',
      'amount',
    ],
    exitCode: 0,
  },
  { args: ['verify', '--body', 'body.json', '--signature', '00'.repeat(32)], exitCode: 1 },
  { args: ['verify', '--body', 'body.json', '--signature', 'RIGHT'], exitCode: 0 },
  { args: ['sign', '--body', 'body.json'], exitCode: 0 },
  { args: ['inbox', 'stats', '--inbox', 'app.db'], exitCode: 0 },
  { args: ['inbox', 'list', '--inbox', 'app.db'], exitCode: 0 },
  { args: ['inbox', 'show', 'ID', '--inbox', 'app.db'], exitCode: 0 },
  { args: ['inbox', 'requeue', 'evt_unknown', '--inbox', 'app.db'], exitCode: 2 },
  // The endpoint does not use the inbox of this app.
  { args: ['inbox', 'redrive', '--all-dead', '--inbox', 'app.db', '--to', 'ENDPOINT'], exitCode: 1 },
  { args: ['inbox', 'prune', '--older-than', '30d', '--inbox', 'app.db', '--dry-run'], exitCode: 0 },
  {
    args: ['wallets', 'create', '--agent', 'agent-7', '--chain', 'base', '--per-tx', '10', '--daily', '25'],
    exitCode: 0,
  },
  { args: ['wallets', 'limits', 'wal_unknown', '--per-tx', '20', '--daily', '50'], exitCode: 2 },
  // Its handler never fails, so one check is not shown.
  { args: ['doctor', 'ENDPOINT'], exitCode: 1 },
  { args: ['types', '--from', 'events.json', '--out', 'payloads.ts'], exitCode: 0 },
  { args: ['completion', 'tcsh'], exitCode: 2 },
  { args: ['evnts'], exitCode: 2 },
];

const columns = 80;

describe.concurrent('a terminal of 80 columns', () => {
  const scenarios = SCENARIOS.map((scenario) => [scenario.args.join(' '), scenario] as const);

  test.for(scenarios)('shows no wrapped row for %s', async ([, { args, exitCode, interruptAt }], context) => {
    await using folder = await makeFolder();
    await symlink(MODULES, folder.at('node_modules'));
    await using service = await startService();
    await using endpoint = await startEndpoint();
    service.sandbox.emit('transfer.settled');
    const event = { ...exampleEvent('transfer.failed'), created_at: new Date().toISOString() };
    const body = JSON.stringify(event);
    await writeFile(folder.at('body.json'), body);
    await writeFile(folder.at('events.json'), JSON.stringify([event]));
    await writeFile(folder.at('ledger.csv'), 'event_id,amount\n');
    {
      using inbox = await openSqlite(folder.at('app.db'));
      const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
      const error =
        'the account was closed on the day before the transfer arrived, and nobody has opened it since';
      if (claim.state === 'claimed') await inbox.fail(claim.lease, { error, retryAfterMs: null });
    }
    const words: Readonly<Record<string, string>> = {
      ENDPOINT: endpoint.url,
      CLOSED: await findClosedUrl(),
      ID: event.id,
      RIGHT: await sign(new TextEncoder().encode(body), { secret: SECRET }),
    };
    const screen = await runInTerminal(
      args.map((word) => words[word] ?? word),
      { columns, cwd: folder.path, env: service.env, ...(interruptAt && { interruptAt }) },
    );
    context.expect(screen.exitCode, screen.rows.join('\n')).toBe(exitCode);
    context.expect(screen.wrapped.filter((row) => !isUnavoidable(row, columns))).toEqual([]);
    context.expect(toWords(screen.rows)).toMatchSnapshot();
  });
});

test('a pipe gets each line whole', async () => {
  await using folder = await makeFolder();
  const { stderr } = await run(['verify', '--body', 'no-such-file-of-this-folder.json', '--signature', 'x'], {
    cwd: folder.path,
  });
  expect(stderr.trim().split('\n')).toHaveLength(1);
});
