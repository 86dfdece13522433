/** A person accepts a gap without a proof. */
import { memoryInbox } from 'stablehooks';
import {
  type Acknowledgement,
  acknowledgeGap,
  EMPTY_POLL_STATE,
  type Gap,
  listGaps,
  POLL_NOTE,
  type StoredGap,
  writePollState,
} from 'stablehooks/catch-up';
import { expect, test } from 'vitest';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const runtime = { now: () => NOW };
const why = { by: 'ops@example.com', reason: 'the books agree' };

const stored = (fields: Partial<StoredGap> = {}): StoredGap => ({
  ...{ from: NOW - 9_000, until: { 'transfer.settled': NOW - 5_000, 'redeem.failed': NOW - 7_000 } },
  ...{ reason: 'no-order', openedAt: NOW - 4_000, acknowledged: null },
  ...fields,
});

/** An inbox with gaps, as a poll left it. */
async function inboxWith(...gaps: readonly StoredGap[]) {
  const inbox = memoryInbox({ runtime });
  await writePollState(inbox, { ...EMPTY_POLL_STATE, watermark: NOW, gaps });
  return { inbox, gaps: await listGaps(inbox) };
}

const iso = (time: number) => new Date(time).toISOString();
const NONE = {} as Gap;

test('of two gaps that begin or were opened at the same time, only the one that is named is acknowledged', async () => {
  const gaps = [
    stored(),
    stored({ openedAt: NOW - 3_000 }),
    stored({ from: NOW - 8_000, openedAt: NOW - 3_000 }),
  ];
  for (const [index] of gaps.entries()) {
    const { inbox, gaps: listed } = await inboxWith(...gaps);
    const taken = await acknowledgeGap(inbox, listed[index] ?? NONE, why, { runtime });
    const expected = { ...listed[index], state: 'acknowledged', acknowledged: { ...why, at: iso(NOW) } };
    expect(taken).toEqual(expected);
    expect(await listGaps(inbox)).toEqual(listed.map((gap, place) => (place === index ? expected : gap)));
    expect(await inbox.leaseNote(POLL_NOTE, { holder: 'the next poll', leaseMs: 0 })).toBe(true);
  }
});

test('what was added to a gap since it was reported stays open, for each type that became longer', async () => {
  const { inbox, gaps } = await inboxWith(stored());
  const [gap = NONE] = gaps;
  const reported = { ...gap, until: iso(NOW - 7_000) };
  const taken = await acknowledgeGap(inbox, reported, why, { runtime });
  expect(taken).toMatchObject({ types: ['transfer.settled', 'redeem.failed'], until: iso(NOW - 7_000) });
  expect(await listGaps(inbox)).toEqual([
    taken,
    { ...gap, types: ['transfer.settled'], from: iso(NOW - 7_000) },
  ]);
});

test('a gap that is not there, is acknowledged, or would be empty is refused, and the next poll need not wait', async () => {
  const { inbox, gaps } = await inboxWith(
    stored(),
    stored({ from: NOW - 20_000, acknowledged: { ...why, at: NOW } }),
  );
  const [gap = NONE, record = NONE] = gaps;
  const wrong = [
    record,
    { ...gap, from: iso(NOW - 9_001) },
    { ...gap, openedAt: iso(NOW - 4_001) },
    { ...gap, until: gap.from },
  ];
  for (const each of wrong) {
    const refused = acknowledgeGap(inbox, each, why, { runtime });
    await expect(refused).rejects.toMatchObject({ code: 'ERR_CONFIG_INVALID' });
    expect(await listGaps(inbox)).toEqual(gaps);
  }
  const smallest = { ...gap, until: iso(NOW - 8_999) };
  expect(await acknowledgeGap(inbox, smallest, why, { runtime })).not.toBeNull();
});

test('an acknowledgement that says too much or nothing is refused by name', async () => {
  const { inbox, gaps } = await inboxWith(stored());
  const [gap = NONE] = gaps;
  const longest = { by: 'x'.repeat(200), reason: 'x'.repeat(1_000) };
  const wrong: readonly [Partial<Record<keyof Acknowledgement, unknown>>, string][] = [
    [{ ...longest, by: 'x'.repeat(201) }, '`by`'],
    [{ ...longest, by: 7 }, '`by`'],
    [{ ...longest, by: '' }, '`by`'],
    [{ ...longest, reason: 'x'.repeat(1_001) }, '`reason`'],
    [{ ...longest, reason: ' ' }, '`reason`'],
    [{ by: 'x' }, '`reason`'],
  ];
  for (const [each, name] of wrong) {
    const refused = acknowledgeGap(inbox, gap, each as unknown as Acknowledgement, { runtime });
    await expect(refused).rejects.toThrow(`acknowledgeGap: ${name}`);
  }
  expect(await listGaps(inbox)).toEqual(gaps);
  expect(await acknowledgeGap(inbox, gap, longest, { runtime })).toMatchObject({ acknowledged: longest });
});

test('an inbox that fails is reported as such, and a gap is not acknowledged if the lease was lost, or while another process polls', async () => {
  const { inbox, gaps } = await inboxWith(stored());
  const [gap = NONE] = gaps;
  const fail = async () => {
    throw new Error('the store is down');
  };
  const down = { code: 'ERR_INBOX_FAILED' };
  await expect(listGaps({ readNote: fail })).rejects.toMatchObject(down);
  for (const method of ['leaseNote', 'readNote', 'writeNote'] as const) {
    const { inbox: failing } = await inboxWith(stored());
    await expect(acknowledgeGap({ ...failing, [method]: fail }, gap, why)).rejects.toMatchObject(down);
  }
  expect(await acknowledgeGap({ ...inbox, writeNote: async () => false }, gap, why)).toBeNull();
  await inbox.leaseNote(POLL_NOTE, { holder: 'another process', leaseMs: 60_000 });
  expect(await acknowledgeGap(inbox, gap, why, { runtime })).toBeNull();
});
