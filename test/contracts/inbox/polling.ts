import assert from 'node:assert/strict';
import { EMPTY_POLL_STATE, EVENT_TYPES, type PollState, type StoredGap } from 'stablehooks';
import { HOUR_MS, simultaneously, type TestedInbox, test } from './given.js';

const LARGEST_MS = 8_640_000_000_000_000;
const open = { reason: 'not-reached', openedAt: 1_767_323_045_678, acknowledged: null } as const;
const untilOf = (from: number) => Object.fromEntries(EVENT_TYPES.map((type, index) => [type, from + index]));

/** Gaps with times, types and text that are hard to store. */
const GAPS: readonly StoredGap[] = [
  { ...open, from: -LARGEST_MS, until: { 'redeem.failed': LARGEST_MS, 'accept.confirmed': -1 } },
  {
    ...{ ...open, from: 0, until: untilOf(1_767_000_000_000), reason: 'clock' },
    acknowledged: {
      by: `Ada "Ops" O'Brien \\ {} [] $1 ?`,
      reason: 'the ledger agrees\r\n\tticket ✓ 😀 \ud83d \u0000 \u2028 end',
      at: 1_767_323_999_999,
    },
  },
  { ...open, from: 1, until: { 'transfer.settled': 2 }, reason: 'unconfirmed' },
];

const MANY_GAPS = Array.from({ length: 500 }, (_, number): StoredGap => {
  const from = 1_767_000_000_000 + number * HOUR_MS;
  const acknowledged = number % 2 ? { by: 'ops', reason: `ticket ${number}`, at: from } : null;
  return { ...open, from, until: untilOf(from + 1), acknowledged };
});

const STATES: readonly Partial<PollState>[] = [
  { since: 5, watermark: 7, gaps: GAPS, limit: 200, oldest: { at: null, seenAt: 6 } },
  { gaps: GAPS.slice(1).toReversed() },
  {
    seen: {
      all: 137,
      type: 60,
      listMaxRefuted: false,
      known: [{ id: 'évt "1"', type: 'transfer.settled', at: -LARGEST_MS }],
      lost: { events: [{ id: 'evt_2', type: 'transfer.settled', at: 0 }], until: LARGEST_MS },
      filterFails: 'late',
      shownFrom: 0,
    },
    unconfirmed: { since: 5, from: -LARGEST_MS, until: LARGEST_MS, size: 137 },
  },
  {
    seen: { all: 0, type: 0, listMaxRefuted: true },
    unconfirmed: { since: 5, from: 6, until: 7, size: null },
  },
  { unconfirmed: null },
  { gaps: MANY_GAPS },
  { since: -2, watermark: -1, oldest: { at: -3, seenAt: -2 }, limit: 50 },
  { since: -LARGEST_MS, watermark: LARGEST_MS, oldest: { at: -LARGEST_MS, seenAt: LARGEST_MS } },
  { since: null, watermark: 0, oldest: { at: 0, seenAt: 0 }, limit: 2_147_483_647 },
  {},
];

const acquire = async ({ port }: TestedInbox, holder: string, leaseMs = HOUR_MS) =>
  port.acquirePoll({ holder, leaseMs });

const save = async ({ port }: TestedInbox, changes: Partial<PollState>, holder: string, leaseMs = HOUR_MS) =>
  port.savePoll({ ...EMPTY_POLL_STATE, ...changes }, { holder, leaseMs });

export const pollCases = [
  test('before the first save the state of the poller is empty, and a save without the lease changes nothing', async (inbox) => {
    assert.equal(await save(inbox, { gaps: GAPS }, 'a'), false);
    assert.deepEqual(await inbox.port.pollState(), EMPTY_POLL_STATE);
    assert.deepEqual(await acquire(inbox, 'a'), EMPTY_POLL_STATE);
  }),
  test('of 20 simultaneous calls of acquirePoll exactly one gets the lease', async (inbox) => {
    const answers = await simultaneously(20, (index) => acquire(inbox, `holder ${index}`));
    assert.equal(answers.filter((answer) => answer !== null).length, 1);
  }),
  test('a lapsed poll lease goes to the next holder, and a save of the old holder changes nothing', async (inbox) => {
    await acquire(inbox, 'a', 0);
    assert.notEqual(await acquire(inbox, 'b'), null);
    assert.equal(await acquire(inbox, 'a'), null);
    assert.equal(await save(inbox, { limit: 50 }, 'a'), false);
    assert.deepEqual(await inbox.port.pollState(), EMPTY_POLL_STATE);
    assert.equal(await save(inbox, { gaps: GAPS }, 'b'), true);
    assert.equal(await save(inbox, { limit: 50 }, 'a'), false);
    assert.deepEqual(await acquire(inbox, 'b'), { ...EMPTY_POLL_STATE, gaps: GAPS });
  }),
  test('a save that renews a lapsed poll lease keeps it, and one that releases it hands the state to the next holder', async (inbox) => {
    await acquire(inbox, 'a', 0);
    assert.equal(await save(inbox, { watermark: 1 }, 'a'), true);
    assert.equal(await acquire(inbox, 'b'), null);
    assert.equal(await save(inbox, { watermark: 2 }, 'a', 0), true);
    assert.deepEqual(await acquire(inbox, 'b'), { ...EMPTY_POLL_STATE, watermark: 2 });
  }),
  test('a saved state comes back unchanged, whatever its times, gaps and text, and meanwhile only the holder can acquire the lease again', async (inbox) => {
    await acquire(inbox, 'a');
    for (const changes of STATES) {
      const state = { ...EMPTY_POLL_STATE, ...changes };
      assert.equal(await save(inbox, state, 'a'), true);
      assert.deepEqual(await inbox.port.pollState(), state);
      assert.equal(await acquire(inbox, 'b'), null);
      assert.deepEqual(await acquire(inbox, 'a'), state);
    }
  }),
];
