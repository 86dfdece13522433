import { writePollState } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { makeFolder, run } from '../command.js';
import { complete, fail } from '../inbox-states.js';
import { openSqlite } from '../sqlite-file.js';

const at = (minutes: number) => new Date(Date.parse('2026-03-01T09:00:00Z') + minutes * 60_000).toISOString();

/** An inbox with two events of trf_1, one of another movement, and a watermark. */
async function fill(
  path: string,
  { watermark = 57, gapFrom }: { watermark?: number; gapFrom?: number } = {},
) {
  using inbox = await openSqlite(path);
  const event = (id: string, minutes: number, transfer: string) =>
    exampleEvent('transfer.settled', {
      id,
      created_at: at(minutes),
      payload: { amount: '1.00', ids: [transfer] },
    });
  await fail(inbox, event('evt_2', 20, 'trf_1'), { error: 'the bank is down' });
  await complete(inbox, event('evt_1', 10, 'trf_1'));
  await complete(inbox, event('evt_3', 15, 'trf_10'));
  const gap = { reason: 'not-reached', openedAt: 0, acknowledged: null } as const;
  const until = { 'transfer.settled': Date.parse(at(40)) };
  const gaps = gapFrom === undefined ? [] : [{ ...gap, from: Date.parse(at(gapFrom)), until }];
  const times = { since: Date.parse(at(0)), watermark: Date.parse(at(watermark)) };
  await writePollState(inbox, { ...times, gaps, limit: 50, oldest: null });
}

describe.concurrent('where', () => {
  test('prints the events of one movement in order, with error and exact text, and what the list proves', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('app.db'));
    const place = ['--inbox', folder.at('app.db')];
    const { stdout, exitCode } = await run(['where', 'trf_1', '--exact', ...place]);
    expect([...stdout.matchAll(/evt_\d$/gm)].map(String)).toEqual(['evt_1', 'evt_2']);
    expect(stdout).toMatch(/dead +1 +push +evt_2\n {2}the bank is down\n\{\n/);
    expect(stdout).toContain(
      `The service's event list is proven complete until ${at(57)}, and contains no later event for this key.\n`,
    );
    expect(exitCode).toBe(0);
    const json = (await run(['where', 'trf_1', '--json', ...place])).stdout.trim().split('\n');
    expect(json.map((line) => JSON.parse(line))).toMatchObject([
      { id: 'evt_1', event: { payload: { ids: ['trf_1'] } } },
      { id: 'evt_2', state: 'dead' },
      { found: 2, proven: { from: at(20), until: at(57) } },
    ]);
  });

  test('claims nothing about a span that is not proven', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('gap.db'), { gapFrom: 30 });
    const gap = await run(['where', 'trf_1', '--inbox', folder.at('gap.db')]);
    expect(gap.stdout).toContain(`proven complete until ${at(30)}`);
    await fill(folder.at('early.db'), { watermark: 20 });
    const early = await run(['where', 'trf_1', '--inbox', folder.at('early.db')]);
    expect(early.stdout).toContain('It is not proven that every later event is in the inbox');
    {
      using inbox = await openSqlite(folder.at('gap.db'));
      await inbox.importDone(['evt_old']);
    }
    const imported = await run(['where', 'trf_1', '--inbox', folder.at('gap.db')]);
    expect(imported.stdout).toContain('It is not proven that every later event is in the inbox');
    expect(imported.stderr).toContain('Not searched: 1 event without readable text (pruned, imported');
  });

  test.for(['evt_3', '12345678901234567890', '1.50', ' true '])(
    'finds an event by its id, and by a number or a boolean of its payload: %s',
    async (key) => {
      await using folder = await makeFolder();
      {
        using inbox = await openSqlite(folder.at('app.db'));
        const payload = { big: Number('12345678901234567890'), amount: 1.5, isFinal: true };
        await complete(inbox, exampleEvent('transfer.settled', { id: 'evt_3', payload }));
      }
      const { stdout, exitCode } = await run(['where', key, '--inbox', folder.at('app.db')]);
      expect(stdout).toMatch(/evt_3$/m);
      expect(exitCode).toBe(0);
    },
  );

  test('a movement without an event is exit 1, with the span in which the list has none', async () => {
    await using folder = await makeFolder();
    await fill(folder.at('app.db'));
    const { stdout, exitCode } = await run(['where', 'trf_9', '--inbox', folder.at('app.db')]);
    expect(stdout).toBe(
      `The inbox has no event for trf_9. The service's event list is proven complete from ${at(0)} until ${at(57)}, and contains no event for this key.\n`,
    );
    expect(exitCode).toBe(1);
  });
});
