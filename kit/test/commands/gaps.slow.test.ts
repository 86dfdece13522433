import { acknowledgeGap, listGaps } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { leaveToCatchUp } from '../own-inbox.js';
import { deliverToFile, openSqlite } from '../sqlite-file.js';

const HOUR = 3_600_000;
const START = Date.parse('2026-11-21T10:00:00Z');
const from = new Date(START).toISOString();
const until = new Date(START + 2 * HOUR).toISOString();
const AUDIT = ['--by', 'ada', '--reason', 'compared with the ledger'];

const HOLDER = { holder: 'a poller', leaseMs: 60_000 };

/** A file with one open gap of two types and two hours, whose poller is at work if `leaseMs` is not 0. */
async function fill(path: string, { leaseMs = 0 } = {}): Promise<void> {
  using inbox = await openSqlite(path);
  await inbox.acquirePoll(HOLDER);
  const saved = {
    since: START - HOUR,
    watermark: START + 5 * HOUR,
    gaps: [
      {
        from: START,
        until: { 'transfer.settled': START + 2 * HOUR, 'redeem.failed': START + HOUR },
        reason: 'not-reached' as const,
        openedAt: START + 3 * HOUR,
        acknowledged: null,
      },
    ],
    limit: 50,
    oldest: null,
  };
  await inbox.savePoll(saved, { ...HOLDER, leaseMs });
}

describe.concurrent('gaps', () => {
  test('gaps list prints each open gap with the command that acknowledges it, and is exit 1', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('events.db'));
    const { stdout, exitCode } = await run(['gaps', 'list', '--inbox', folder.at('events.db')]);
    expect(stdout).toMatch(
      `open          Events of transfer.settled, redeem.failed created after ${from} and up to ${until} can be missing: `,
    );
    expect(stdout).toContain(
      [
        `stablehooks gaps acknowledge --inbox ${folder.at('events.db')} \\`,
        `                --from ${from} --until ${until} \\`,
        '                --by NAME --reason TEXT\n',
      ].join('\n'),
    );
    expect(stdout).toMatch(/\n1 open gap before the watermark 2026-11-21T15:00:00\.000Z\.\n$/);
    expect(exitCode).toBe(1);
  });

  test('gaps list names the flags of catch-up in its inbox, and the options of the poller in that of an app', async () => {
    await using folder = await makeFolder();
    const path = folder.at('events.db');
    await fill(path);
    const advise = async () => (await run(['gaps', 'list', '--inbox', path])).stdout;
    expect(await advise()).toContain('poll more often or raise maxLimit.');
    using inbox = await openSqlite(path);
    await leaveToCatchUp(inbox);
    expect(await advise()).toContain('poll more often or raise --max-limit.');
  });

  test('the printed command can be copied, also for a file whose name a shell would split', async () => {
    await using folder = await makeFolder();
    const path = folder.at("bob's events.db");
    await fill(path);
    const { stdout } = await run(['gaps', 'list', '--inbox', path]);
    const [, quoted = ''] = /--inbox (.*) \\\n/.exec(stdout) ?? [];
    expect(quoted).toBe(`'${path.replace("'", "'\\''")}'`);
  });

  test('gaps acknowledge keeps who, when and why in the inbox, and the gap is not listed any more', async () => {
    await using folder = await makeFolder();
    const place = ['--inbox', folder.at('events.db')];
    await fill(folder.at('events.db'));
    const done = await run(['gaps', 'acknowledge', ...place, '--from', from, '--until', until, ...AUDIT]);
    expect(done.stdout).toMatch(
      /^acknowledged {2}Events .* Acknowledged by ada at 20\S+Z: compared with the ledger\n$/,
    );
    expect(done.exitCode).toBe(0);
    using inbox = await openSqlite(folder.at('events.db'));
    expect(await listGaps(inbox)).toMatchObject([
      { state: 'acknowledged', from, until, acknowledged: { by: 'ada', reason: 'compared with the ledger' } },
    ]);

    const open = await run(['gaps', 'list', ...place]);
    expect(open.stdout).toMatch(
      /^No open gaps before the watermark .*; --all also shows 1 acknowledged gap\.\n$/,
    );
    expect(open.exitCode).toBe(0);
    const all = await run(['gaps', 'list', ...place, '--all']);
    expect(all.stdout).toContain('Acknowledged by ada at ');
    expect(all.stdout).not.toContain('gaps acknowledge');
    expect(all.exitCode).toBe(0);
  });

  test('gaps acknowledge without --until accepts the whole gap, and with it the part up to that time', async () => {
    await using folder = await makeFolder();
    const place = ['--inbox', folder.at('events.db'), '--json'];
    await fill(folder.at('events.db'));
    const middle = new Date(START + HOUR / 2).toISOString();
    const part = await run(['gaps', 'acknowledge', ...place, '--from', from, '--until', middle, ...AUDIT]);
    expect(JSON.parse(part.stdout)).toMatchObject({ state: 'acknowledged', from, until: middle });
    const list = await run(['gaps', 'list', ...place]);
    const [gap, last] = list.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(gap).toMatchObject({ state: 'open', from: middle, until });
    expect(last).toEqual({ watermark: '2026-11-21T15:00:00.000Z', open: 1, acknowledged: 1 });
    expect(list.exitCode).toBe(1);
    const rest = await run(['gaps', 'acknowledge', ...place, '--from', middle, ...AUDIT]);
    expect(JSON.parse(rest.stdout)).toMatchObject({ state: 'acknowledged', from: middle, until });
    const none = await run(['gaps', 'list', ...place]);
    expect(JSON.parse(none.stdout)).toEqual({
      watermark: '2026-11-21T15:00:00.000Z',
      open: 0,
      acknowledged: 2,
    });
    expect(none.exitCode).toBe(0);
  });

  test('gaps acknowledge of a gap that does not exist is exit 2, and names those that exist', async () => {
    await using folder = await makeFolder();
    const place = ['--inbox', folder.at('events.db')];
    await fill(folder.at('events.db'));
    const wrong = ['gaps', 'acknowledge', ...place, '--from', '2026-11-21T11:00:00Z', ...AUDIT];
    expect(await run(wrong)).toEqual({
      stdout: '',
      stderr: `stablehooks: No open gap begins at 2026-11-21T11:00:00.000Z. Open gaps begin at ${from}.\n`,
      exitCode: 2,
    });
    using inbox = await openSqlite(folder.at('events.db'));
    const [gap] = await listGaps(inbox);
    if (gap !== undefined) await acknowledgeGap(inbox, gap, { by: 'ada', reason: 'compared' });
    const none = await run(['gaps', 'acknowledge', ...place, '--from', from, ...AUDIT]);
    expect(none.stderr).toBe(`stablehooks: No open gap begins at ${from}. No gap is open.\n`);
    expect(none.exitCode).toBe(2);
  });

  test('gaps acknowledge while another process polls is exit 3, and changes nothing', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('events.db'), { leaseMs: 600_000 });
    const { stdout, stderr, exitCode } = await run([
      'gaps',
      'acknowledge',
      '--inbox',
      folder.at('events.db'),
      '--from',
      from,
      ...AUDIT,
    ]);
    expect(stdout).toBe('');
    expect(stderr).toBe(
      'stablehooks: Another process polls with this inbox, so nothing was acknowledged. Run the same command again, or stop that process first.\n',
    );
    expect(exitCode).toBe(3);
    using inbox = await openSqlite(folder.at('events.db'));
    expect(await listGaps(inbox)).toMatchObject([{ state: 'open' }]);
  });

  test('gaps acknowledge needs a name and a reason', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('events.db'));
    const args = ['gaps', 'acknowledge', '--inbox', folder.at('events.db'), '--from', from];
    const missing = await run([...args, '--by', 'ada']);
    expect(missing.stderr).toContain('--reason <text> is required');
    expect(missing.exitCode).toBe(2);
    for (const wrong of [
      ['--by', 'ada', '--reason', ' '],
      ['--by', 'a'.repeat(201), '--reason', 'compared'],
    ]) {
      const { stderr, exitCode } = await run([...args, ...wrong]);
      expect(stderr).toMatch(
        /option '--(by|reason) <\w+>' argument '[^']+' is invalid\. Write 1 to 1?\d00+ characters\./,
      );
      expect(exitCode).toBe(2);
    }
  });

  test('gaps list of an inbox that no poll has used is exit 1, because nothing is proven', async () => {
    await using folder = await makeFolder();
    (await openSqlite(folder.at('events.db')))[Symbol.dispose]();
    const args = ['gaps', 'list', '--inbox', folder.at('events.db')];
    const { stdout, exitCode } = await run(args);
    expect(stdout).toBe(
      "No poll has read the list yet, so nothing is proven. If it is the inbox of an app, start the app's poller (createPoller). If no app uses it, run `stablehooks catch-up`.\n",
    );
    expect(exitCode).toBe(1);
    const json = await run([...args, '--json']);
    expect(JSON.parse(json.stdout)).toEqual({ watermark: null, open: 0, acknowledged: 0 });
    expect(json.exitCode).toBe(1);
  });

  test('gaps list of the inbox of an app that no poll has used names the poller of the app, and no command that refuses this inbox', async () => {
    await using folder = await makeFolder();
    await deliverToFile(folder.at('app.db'), [exampleEvent('accept.confirmed')]);
    const { stdout, exitCode } = await run(['gaps', 'list', '--inbox', folder.at('app.db')]);
    expect(stdout).toBe(
      "No poll has read the list yet, so nothing is proven. This is the inbox of an app, because a receiver recorded events in it: start the app's poller (createPoller).\n",
    );
    expect(exitCode).toBe(1);
  });
});
