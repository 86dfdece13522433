import { acknowledgeGap, listGaps, POLL_NOTE, writePollState } from 'stablehooks/catch-up';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { openCatchUp } from '../own-inbox.js';
import { openSqlite } from '../sqlite-file.js';

const HOUR = 3_600_000;
/** So that the watermark, five hours later, is not stale. */
const START = Math.floor(Date.now() / 60_000) * 60_000 - 5 * HOUR;
const from = new Date(START).toISOString();
const until = new Date(START + 2 * HOUR).toISOString();
const watermark = new Date(START + 5 * HOUR).toISOString();
const AUDIT = ['--by', 'ada', '--reason', 'compared with the ledger'];

/** A file with one open gap of two types and two hours, whose poller is at work if `leaseMs` is not 0. */
async function fill(path: string, { leaseMs = 0 } = {}): Promise<void> {
  using inbox = await openSqlite(path);
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
  await writePollState(inbox, saved);
  await inbox.leaseNote(POLL_NOTE, { holder: 'a poller', leaseMs });
}

describe.concurrent('gaps', () => {
  test('gaps list prints each open gap with the command that acknowledges it, and is exit 1', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('events.db'));
    const { stdout, exitCode } = await run(['gaps', 'list', '--inbox', folder.at('events.db')]);
    expect(stdout).toContain(`created after ${from} and up to ${until} may be missing`);
    expect(stdout).toContain(
      [
        `stablehooks gaps acknowledge --inbox ${folder.at('events.db')} \\`,
        `                --from ${from} --until ${until} \\`,
        '                --by NAME --reason TEXT\n',
      ].join('\n'),
    );
    expect(stdout).toMatch(new RegExp(`\n1 open gap before the watermark ${watermark}\\.\n$`));
    expect(exitCode).toBe(1);
  });

  test('gaps list is exit 1 when the watermark is older than --proven-within, and says how old it is', async () => {
    await using folder = await makeFolder();
    using inbox = await openSqlite(folder.at('events.db'));
    const saved = { since: START - HOUR, watermark: START, gaps: [], limit: 50, oldest: null };
    await writePollState(inbox, saved);
    const args = ['gaps', 'list', '--inbox', folder.at('events.db')];
    const stale = await run(args);
    expect(stale.stdout).toMatch(/^No open gaps before the watermark /);
    expect(stale.stderr).toMatch(/^The watermark is 5h[ \dms]* old.*poller is running/);
    expect(stale.exitCode).toBe(1);
    const accepted = await run([...args, '--proven-within', '30d']);
    expect(accepted.stderr).toMatch(
      /^The last proof is 5h.* old. It counts only because you passed --proven-within 30d\.\n$/,
    );
    expect(accepted.exitCode).toBe(0);
    const status = await run(['status', '--inbox', folder.at('events.db'), '--proven-within', '30d']);
    expect(status.stderr).toMatch(
      /^The last proof is 5h.* counts only because you passed --proven-within 30d\.\n$/,
    );
  });

  test('gaps list is exit 1 after a poll that proved nothing, and says so', async () => {
    await using folder = await makeFolder();
    using inbox = await openSqlite(folder.at('events.db'));
    const first = { since: START, watermark: START, gaps: [], limit: 50, oldest: null };
    await writePollState(inbox, { ...first, lastAttempt: { at: START } });
    const ended = await run(['gaps', 'list', '--inbox', folder.at('events.db')]);
    expect(ended.stdout).toMatch(/^Not verified yet: no poll has proven that every event arrived\. /);
    expect(ended.exitCode).toBe(1);
  });

  test('gaps list is exit 1 where all of the time is unconfirmed, and 0 once some of it is proven', async () => {
    await using folder = await makeFolder();
    using inbox = await openSqlite(folder.at('events.db'));
    const gap = {
      ...{ from: START, until: { 'transfer.settled': START + 5 * HOUR } },
      ...({ reason: 'unconfirmed', openedAt: START + 5 * HOUR, acknowledged: null } as const),
    };
    const saved = { since: START, watermark: START + 5 * HOUR, limit: 50, oldest: null };
    await writePollState(inbox, { ...saved, gaps: [gap] });
    const args = ['gaps', 'list', '--inbox', folder.at('events.db')];
    const none = await run(args);
    expect(none.stdout).toContain(
      `\nNot shown: no poll has yet proven that every event before the watermark ${watermark} is in the inbox.`,
    );
    expect(none.exitCode).toBe(1);
    await writePollState(inbox, { ...saved, gaps: [{ ...gap, from: START + HOUR }] });
    expect(await run(args)).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/\nNo open gaps/) });
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
    expect(done.stdout).toMatch(/^acknowledged .* by ada at 20\S+Z: compared with the ledger\n$/);
    expect(done.exitCode).toBe(0);
    using inbox = await openSqlite(folder.at('events.db'));
    expect(await listGaps(inbox)).toMatchObject([
      { state: 'acknowledged', from, until, acknowledged: { by: 'ada', reason: 'compared with the ledger' } },
    ]);

    const open = await run(['gaps', 'list', ...place]);
    expect(open.stdout).toMatch(/^No open gaps .*--all also shows 1 acknowledged gap\.\n$/);
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
    expect(last).toEqual({ watermark, stale: false, open: 1, acknowledged: 1 });
    expect(list.exitCode).toBe(1);
    const rest = await run(['gaps', 'acknowledge', ...place, '--from', middle, ...AUDIT]);
    expect(JSON.parse(rest.stdout)).toMatchObject({ state: 'acknowledged', from: middle, until });
    const none = await run(['gaps', 'list', ...place]);
    expect(JSON.parse(none.stdout)).toEqual({
      watermark,
      stale: false,
      open: 0,
      acknowledged: 2,
    });
    expect(none.exitCode).toBe(0);
  });

  test('gaps acknowledge of a gap that does not exist is exit 2, and names those that exist', async () => {
    await using folder = await makeFolder();
    const place = ['--inbox', folder.at('events.db')];
    await fill(folder.at('events.db'));
    const elsewhere = new Date(START + HOUR).toISOString();
    const wrong = ['gaps', 'acknowledge', ...place, '--from', elsewhere, ...AUDIT];
    expect(await run(wrong)).toEqual({
      stdout: '',
      stderr: `stablehooks: No open gap begins at ${elsewhere}. Open gaps begin at ${from}.\n`,
      exitCode: 2,
    });
    using inbox = await openSqlite(folder.at('events.db'));
    const [gap] = await listGaps(inbox);
    if (gap !== undefined) await acknowledgeGap(inbox, gap, { by: 'ada', reason: 'compared' });
    const none = await run(['gaps', 'acknowledge', ...place, '--from', from, ...AUDIT]);
    expect(none.stderr).toBe(`stablehooks: No open gap begins at ${from}. There are no open gaps.\n`);
    expect(none.exitCode).toBe(2);
  });

  test('gaps acknowledge while another process polls is exit 3, and changes nothing', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('events.db'), { leaseMs: 600_000 });
    const args = ['gaps', 'acknowledge', '--inbox', folder.at('events.db'), '--from', from, ...AUDIT];
    const { stdout, stderr, exitCode } = await run(args);
    expect(stdout).toBe('');
    expect(stderr).toContain('Another process is polling with this inbox');
    expect(exitCode).toBe(3);
    using inbox = await openSqlite(folder.at('events.db'));
    expect(await listGaps(inbox)).toMatchObject([{ state: 'open' }]);
  });

  test.for([
    ['an app', openSqlite, "Start your app's poller (createPoller)."],
    ['catch-up', openCatchUp, 'Run `stablehooks catch-up`.'],
  ] as const)(
    'gaps list of an inbox of %s that no poll has used is exit 1, because nothing is proven',
    async ([, open, advice]) => {
      await using folder = await makeFolder();
      (await open(folder.at('events.db')))[Symbol.dispose]();
      const args = ['gaps', 'list', '--inbox', folder.at('events.db')];
      const { stdout, exitCode } = await run(args);
      expect(stdout).toBe(`No poll has read the service's event list yet, so nothing is proven. ${advice}\n`);
      expect(exitCode).toBe(1);
      const json = await run([...args, '--json']);
      expect(JSON.parse(json.stdout)).toEqual({ watermark: null, stale: false, open: 0, acknowledged: 0 });
      expect(json.exitCode).toBe(1);
    },
  );
});
