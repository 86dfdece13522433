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
  let made = count;
  let kept = Array.from({ length: count }, (_, index) => keep(index));
  const looks: string[] = [];
  const list = createAttemptList(
    () => kept,
    (one) => {
      looks.push(one.row.id);
      return one;
    },
  );
  const add = () => {
    kept = [...kept, keep(made)];
    made += 1;
  };
  const drop = () => {
    kept = kept.slice(1);
  };
  return { reads, looks, list, add, drop };
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

test('counts follow the attempts that come and go, without a look at the others', async () => {
  const { list, add, drop, looks } = keepAttempts(1_000, '');
  expect(await list.stats({})).toMatchObject({ total: 1_000, kinds: { accepted: [1_000] } });
  looks.length = 0;
  add();
  drop();
  drop();
  const { total, kinds, latency, from, types } = await list.stats({});
  expect([total, kinds.accepted, latency.counts[0], from]).toEqual([999, [998, 1], 999, 0]);
  expect(types).toEqual(['accept.confirmed']);
  expect(looks.toSorted()).toEqual(['att_0', 'att_1', 'att_1000']);
  // The same with a filter that was not asked for before.
  expect(await list.stats({ type: 'accept.confirmed' })).toEqual(await list.stats({}));
});
