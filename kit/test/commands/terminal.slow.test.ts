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

/**
 * A row of a table, a command, JSON and a word that alone is nearly as long as the terminal is wide, such as a signature, stay whole,
 * so that they can be pasted.
 */
function isUnavoidable(row: string, columns: number): boolean {
  const isTableOrCommand = /\S {2,}\S+ {2,}\S|`stablehooks |^\s*"/.test(row);
  return isTableOrCommand || row.split(' ').some((word) => word.length > columns - 20);
}

/** A command, how it ends, and what it prints before Ctrl-C ends it. */
const SCENARIOS: readonly (readonly [command: string, exitCode: number, interruptAt?: RegExp])[] = [
  ['sandbox --port 0 --to ENDPOINT', 130, /Ctrl-C/],
  ['trigger transfer.settled --to ENDPOINT --duplicate', 0],
  ['trigger transfer.settled --to CLOSED', 3],
  ['listen --to ENDPOINT --since 1h', 130, /evt_\w+[\s\S]*200 handled/],
  ['events list', 0],
  ['events replay --all --to ENDPOINT', 0],
  ['catch-up --to ENDPOINT --inbox new.db --since 1h', 0],
  ['gaps list --inbox app.db', 1],
  ['gaps acknowledge --inbox app.db --from 2026-01-01 --by me --reason why', 2],
  ['reconcile --ledger ledger.csv --inbox app.db --since 1h --amount-column amount', 1],
  [`verify --body body.json --signature ${'00'.repeat(32)}`, 1],
  ['verify --body body.json --signature RIGHT', 0],
  ['sign --body body.json', 0],
  ['inbox stats --inbox app.db', 0],
  ['inbox list --inbox app.db', 0],
  ['inbox show ID --inbox app.db', 0],
  ['inbox requeue evt_unknown --inbox app.db', 2],
  // The endpoint does not use the inbox of this app.
  ['inbox run --state dead --inbox app.db --to ENDPOINT', 1],
  ['inbox prune --older-than 30d --inbox app.db --dry-run', 0],
  ['wallets create --agent agent-7 --chain base --per-tx 10 --daily 25', 0],
  ['wallets limits wal_unknown --per-tx 20 --daily 50', 2],
  ['doctor ENDPOINT', 0],
  ['evnts', 2],
];

const columns = 80;

describe.concurrent('a terminal of 80 columns', () => {
  test.for(SCENARIOS)('shows no wrapped row for %s', async ([command, exitCode, interruptAt]) => {
    await using folder = await makeFolder();
    await symlink(MODULES, folder.at('node_modules'));
    await using service = await startService();
    await using endpoint = await startEndpoint();
    service.sandbox.emit('transfer.settled');
    const event = { ...exampleEvent('transfer.failed'), created_at: new Date().toISOString() };
    const body = JSON.stringify(event);
    await writeFile(folder.at('body.json'), body);
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
      command.split(' ').map((word) => words[word] ?? word),
      { columns, cwd: folder.path, env: service.env, ...(interruptAt && { interruptAt }) },
    );
    expect(screen.exitCode, screen.rows.join('\n')).toBe(exitCode);
    expect(screen.wrapped.filter((row) => !isUnavoidable(row, columns))).toEqual([]);
  });
});

test('a pipe gets each line whole', async () => {
  await using folder = await makeFolder();
  const { stderr } = await run(['verify', '--body', 'no-such-file-of-this-folder.json', '--signature', 'x'], {
    cwd: folder.path,
  });
  expect(stderr.trim().split('\n')).toHaveLength(1);
});
