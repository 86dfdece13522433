import { type PollState, provenSpan } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';

const HOUR = 3_600_000;
const iso = (hours: number) => new Date(hours * HOUR).toISOString();
const gap = (from: number, until: number): PollState['gaps'][number] => ({
  ...{ from: from * HOUR, until: { 'redeem.failed': until * HOUR }, reason: 'not-reached', openedAt: 0 },
  acknowledged: { by: 'ada', reason: 'compared', at: 0 },
});
const polled = (gaps: PollState['gaps'] = []) => ({ since: 2 * HOUR, watermark: 9 * HOUR, gaps });

test('the proven span ends at the watermark, or where a gap of the types begins, even an acknowledged one', () => {
  expect(provenSpan(polled(), { from: 4 * HOUR })).toEqual({ from: iso(4), until: iso(9) });
  expect(provenSpan(polled([gap(6, 7)]), { from: 4 * HOUR })).toEqual({ from: iso(4), until: iso(6) });
  expect(provenSpan(polled([gap(6, 7)]), { from: 7 * HOUR })).toEqual({ from: iso(7), until: iso(9) });
  expect(provenSpan(polled([gap(6, 7)]), { from: 4 * HOUR, types: ['transfer.settled'] })).toEqual({
    ...{ from: iso(4), until: iso(9) },
  });
});

test('nothing is proven before the start date, inside a gap, after the watermark, and by doubtful polls', () => {
  expect(provenSpan(polled(), { from: 0 })).toEqual({ from: iso(2), until: iso(9) });
  expect(provenSpan(polled([gap(3, 7)]), { from: 4 * HOUR })).toBeNull();
  expect(provenSpan(polled(), { from: 9 * HOUR })).toBeNull();
  expect(provenSpan({ ...polled(), doubts: ['unlisted'] }, { from: 4 * HOUR })).toBeNull();
  expect(provenSpan({ since: null, watermark: null, gaps: [] }, { from: 0 })).toBeNull();
});
