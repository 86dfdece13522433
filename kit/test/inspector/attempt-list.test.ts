import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { AttemptRow } from '../../src/inspector/api.js';
import { createAttemptList, type KeptAttempt } from '../../src/inspector/attempt-list.js';

/** Attempts whose bodies count how often they are read. */
function keepAttempts(count: number, body: string) {
  const reads: string[] = [];
  const keep = (index: number): KeptAttempt => {
    const id = `att_${index}`;
    const row: AttemptRow = {
      ...{ id, eventId: `evt_${index}`, type: 'accept.confirmed', endpoint: 'http://endpoint.invalid/' },
      ...{ at: new Date(index).toISOString(), attempt: 1, kind: 'accepted', status: 200, outcome: null },
      ...{ durationMs: 1, faults: [] },
    };
    const bodies = () => {
      reads.push(id);
      return [body];
    };
    return { row, at: index, bodies };
  };
  const kept = Array.from({ length: count }, (_, index) => keep(index));
  return { reads, list: createAttemptList(() => kept), add: () => kept.push(keep(kept.length)) };
}

test('bodies are read only to be searched, and once for each text', async () => {
  const { reads, list, add } = keepAttempts(3, 'Needle');
  await list.list({ limit: 10, id: 'att_1' });
  await list.stats({ type: 'accept.confirmed' });
  expect(reads).toEqual([]);
  expect((await list.list({ limit: 10, text: 'needle' })).rows).toHaveLength(3);
  expect(await list.stats({ text: 'NEEDLE' })).toMatchObject({ total: 3 });
  add();
  expect(await list.stats({ text: 'needle' })).toMatchObject({ total: 4 });
  expect(reads.toSorted()).toEqual(['att_0', 'att_1', 'att_2', 'att_3']);
});

test('other work of the process runs while bodies are searched', async () => {
  const { reads, list } = keepAttempts(500, 'x'.repeat(1_048_576));
  const searched = list.stats({ text: 'needle' });
  await nextTurn();
  expect(reads.length).toBeGreaterThan(0);
  expect(reads.length).toBeLessThan(500);
  expect(await searched).toMatchObject({ total: 0 });
});

test('counts are kept until the next attempt, for each filter', async () => {
  const { list, add } = keepAttempts(3, '');
  const [all, one] = await Promise.all([list.stats({}), list.stats({ id: 'att_1' })]);
  expect([all.total, one.total]).toEqual([3, 1]);
  expect(await list.stats({})).toBe(all);
  expect(await list.stats({ id: 'att_1' })).toBe(one);
  add();
  expect(await list.stats({})).toMatchObject({ total: 4 });
});
