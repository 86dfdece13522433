/** What a terminal shows can be pasted, however narrow it is: commands into a shell, JSON into a program. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { writePollState } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { deliverToFile, openSqlite } from '../sqlite-file.js';
import { runInTerminal } from '../terminal.js';

/** Pastes lines into a shell, and returns the words that the command receives. */
async function paste(lines: string): Promise<readonly string[]> {
  const script = `stablehooks() { printf '%s\\n' "$@"; }\n${lines}\n`;
  const { stdout } = await promisify(execFile)('bash', ['--norc', '-c', script]);
  return stdout.trimEnd().split('\n');
}

const TERMINALS = [40, 80, 200].flatMap((columns) => [
  { columns, colours: 'with colours', env: {} },
  { columns, colours: 'without colours', env: { NO_COLOR: '1' } },
]);

const ERROR = 'the account was closed on the day before the transfer arrived, and the bank has not answered';

describe.concurrent.each(TERMINALS)('a terminal of $columns columns, $colours', ({ columns, env }) => {
  test('the command below a gap is pasted whole', async () => {
    await using folder = await makeFolder();
    const path = folder.at('a folder of ledgers.db');
    const place = ['--inbox', path];
    const [from, until] = [Date.now() - 3_600_000, Date.now() - 60_000];
    using inbox = await openSqlite(path);
    const gap = {
      from,
      until: { 'transfer.settled': until },
      reason: 'not-reached',
      openedAt: until,
    } as const;
    const gaps = [{ ...gap, acknowledged: null }];
    await writePollState(inbox, { since: from, watermark: until, gaps, limit: 50, oldest: null });

    const { rows } = await runInTerminal(['gaps', 'list', ...place], { columns, env });
    const start = rows.findIndex((row) => row.includes('stablehooks gaps acknowledge'));
    const span = ['--from', new Date(from).toISOString(), '--until', new Date(until).toISOString()];
    expect(await paste(rows.slice(start, start + 3).join('\n'))).toEqual([
      ...['gaps', 'acknowledge', ...place, ...span, '--by', 'NAME', '--reason', 'TEXT'],
    ]);
  });

  test('inbox show is JSON, and the command of inbox requeue is pasted whole', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app of the ledger.db');
    const event = exampleEvent('transfer.failed', { payload: { note: `${ERROR}. ${ERROR}` } });
    await deliverToFile(path, [event]);
    const place = ['--inbox', path];
    const shown = await runInTerminal(['inbox', 'show', event.id, ...place], { columns, env });
    expect(JSON.parse(shown.rows.join('\n'))).toMatchObject({ state: 'dead', event });

    const args = ['inbox', 'requeue', event.id, ...place, '--wait', '1ms'];
    const { rows } = await runInTerminal(args, { columns, env });
    const [, command = ''] = /`(stablehooks inbox run [^`]*)`/.exec(rows.join('\n')) ?? [];
    expect(await paste(command)).toEqual(['inbox', 'run', event.id, ...place, '--to', 'URL']);
  });

  test('the command of inbox errors is pasted whole, and inbox list --json is JSON', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app of the ledger.db');
    await deliverToFile(path, [exampleEvent('transfer.failed', { payload: { note: ERROR } })]);
    const place = ['--inbox', path];
    const { rows } = await runInTerminal(['inbox', 'errors', ...place], { columns, env });
    const command = rows.find((row) => row.includes('stablehooks inbox requeue')) ?? '';
    const group = ['--state', 'dead', '--group', 'ERR_HANDLER_PERMANENT: the account was closed'];
    expect(await paste(command)).toEqual(['inbox', 'requeue', ...place, ...group]);
    const listed = await runInTerminal(['inbox', 'list', '--json', ...place], { columns, env });
    expect(JSON.parse(listed.rows.join('\n'))).toMatchObject({ state: 'dead' });
  });

  test('the columns of status, inbox stats and inbox list stay columns', async () => {
    await using folder = await makeFolder();
    const path = folder.at('app.db');
    const event = exampleEvent('transfer.failed');
    using inbox = await openSqlite(path);
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    if (claim.state === 'claimed') await inbox.fail(claim.lease, { error: ERROR, retryAfterMs: null });

    const status = await runInTerminal(['status', '--inbox', path], { columns, env });
    // A mark and a name, or the rest of a message below its start.
    const rows = status.rows.filter((row) => /^(?:(?:ok|--| !|no) {2}\w+ +\S| {14}\S)/.test(row));
    const verdict = status.rows.filter((row) => !rows.includes(row));
    expect(verdict.join(' ').trim()).toMatch(/^[A-Z].*\.$/);
    expect(rows.length).toBeGreaterThan(8);
    for (const args of [['stats'], ['list']]) {
      const place = ['inbox', ...args, '--inbox', path];
      const piped = (await run(place)).stdout.trim().split('\n');
      const screen = await runInTerminal(place, { columns, env });
      expect(screen.rows[0]).toBe(piped[0]);
      expect(screen.rows).toContainEqual(
        expect.stringMatching(args[0] === 'stats' ? /^dead +1 / : /^transfer\.failed +\S+ +dead +/),
      );
    }
  });
});
