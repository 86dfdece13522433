import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type AttemptRow, NONE_DROPPED } from '../../src/inspector/api.js';
import { createAttemptEvents, type KeptAttempt } from '../../src/inspector/attempt-events.js';

type Given = Partial<AttemptRow> & { readonly body?: string };

/** The events of attempts that are made one ms after the other. `reads` are the ids whose bodies were read. */
function eventsOf(given: readonly Given[], pending: readonly string[] = []) {
  const reads: string[] = [];
  const kept = given.map(({ body = '', ...row }, at): KeptAttempt => {
    const id = `att_${at}`;
    const bodies = () => {
      reads.push(id);
      return [body];
    };
    const defaults: AttemptRow = {
      ...{ id, at: new Date(at).toISOString(), eventId: 'evt_1', type: 'accept.confirmed', attempt: 1 },
      ...{ endpoint: 'http://endpoint.invalid/', kind: 'accepted', status: 200, outcome: 'handled' },
      ...{ durationMs: 1, faults: [] },
    };
    return { row: { ...defaults, ...row }, at, bodies };
  });
  const made = [...kept];
  const events = createAttemptEvents({
    attempts: () => [...made],
    toKept: (one) => one,
    pending: () => new Set(pending),
    dropped: () => NONE_DROPPED,
  });
  return { events, reads, made };
}

const failed = { kind: 'failed', status: 500, outcome: 'ERR_HANDLER_FAILED' } as const;
const lost = { kind: 'unanswered', status: null, outcome: 'lost (fault drop)', faults: ['drop'] } as const;

test.each<[verdict: string, tone: string, attempts: readonly Given[], pending?: boolean]>([
  ['Accepted', 'good', [{}]],
  ['Accepted on attempt 3', 'good', [failed, failed, {}]],
  ['Accepted', 'good', [{}, { ...failed, edited: true }]],
  // The copy of a duplicated delivery was busy.
  ['Accepted', 'good', [{}, { ...failed, faults: ['duplicate'] }]],
  ['Never delivered, 2 attempts: 500 ERR_HANDLER_FAILED', 'bad', [failed, failed]],
  ['Not delivered yet, 1 attempt: 500 ERR_HANDLER_FAILED', 'doubtful', [failed], true],
  ['Never delivered, 1 attempt: lost (fault drop)', 'bad', [lost]],
  ['Accepted without effect: 200 ignored', 'doubtful', [{ kind: 'without-effect', outcome: 'ignored' }]],
  ['Never delivered, 1 attempt: 500 ERR_HANDLER_FAILED', 'bad', [{}, { ...failed, endpoint: 'http://b/' }]],
  // A person tried another URL.
  ['Accepted', 'good', [{}, { ...failed, endpoint: 'http://b/', elsewhere: true }]],
  [
    'Accepted despite a wrong signature: 200 handled (injected: corruptSignature)',
    'bad',
    [{ kind: 'wrongly-accepted', faults: ['corruptSignature'] }],
  ],
])('the attempts of an event are one row: %s', async (verdict, tone, attempts, isPending = false) => {
  const { events } = eventsOf(attempts, isPending ? ['evt_1'] : []);
  const { rows } = await events.events({ limit: 10 });
  expect(rows).toMatchObject([{ id: 'evt_1', verdict, tone, attempts: attempts.length }]);
  expect(rows[0]?.history).toHaveLength(attempts.length);
});

test('events are listed by their first attempt, newest first, in pages that follow each other', async () => {
  const ids = Array.from({ length: 7 }, (_, index) => `evt_${index}`);
  const { events, made } = eventsOf([...ids, 'evt_0'].map((eventId) => ({ eventId })));
  const found: string[] = [];
  for (let after: string | undefined, more = true; more; ) {
    const { rows, next } = await events.events({ limit: 3, after });
    found.push(...rows.map(({ id }) => id));
    [after, more] = [next ?? undefined, next !== null];
  }
  expect(found).toEqual(ids.toReversed());
  made.shift();
  // The second attempt of the event is kept.
  expect(events.event('evt_0')).toMatchObject({ attempts: 1 });
  made.splice(0, made.length);
  expect((await events.events({ limit: 10 })).rows).toEqual([]);
});

test('each condition of a filter counts, and the counts of the states do not depend on the state', async () => {
  const { events } = eventsOf([
    { eventId: 'evt_a' },
    { eventId: 'evt_b', ...failed },
    { eventId: 'evt_c', ...failed, type: 'redeem.failed' },
  ]);
  const idsOf = async (filter: Parameters<typeof events.counts>[0]) =>
    (await events.events({ limit: 10, ...filter })).rows.map(({ id }) => id);
  expect(await idsOf({ state: 'failed' })).toEqual(['evt_c', 'evt_b']);
  expect(await idsOf({ state: 'failed', type: 'redeem.failed' })).toEqual(['evt_c']);
  expect(await idsOf({ id: 'VT_A' })).toEqual(['evt_a']);
  expect(await idsOf({ error: 'ERR_HANDLER', until: 2 })).toEqual(['evt_b']);
  expect(await idsOf({ since: 1, until: 2 })).toEqual(['evt_b']);
  expect(await events.counts({ state: 'failed' })).toMatchObject({
    states: [
      { state: 'failed', count: 2 },
      { state: 'accepted', count: 1 },
    ],
    types: ['accept.confirmed', 'redeem.failed'],
  });
});

test('bodies are read only to be searched', async () => {
  const { events, reads } = eventsOf(['evt_0', 'evt_1'].map((eventId) => ({ eventId, body: 'Needle' })));
  await events.events({ limit: 10, id: 'evt' });
  await events.counts({ type: 'accept.confirmed' });
  expect(reads).toEqual([]);
  expect((await events.events({ limit: 10, text: 'NEEDLE' })).rows).toHaveLength(2);
});

test('other work of the process runs while bodies are searched', async () => {
  const body = 'x'.repeat(1_048_576);
  const ids = Array.from({ length: 500 }, (_, index) => `evt_${index}`);
  const { events, reads } = eventsOf(ids.map((eventId) => ({ eventId, body })));
  const searched = events.events({ limit: 10, text: 'needle' });
  await nextTurn();
  expect(reads.length).toBeGreaterThan(0);
  expect(reads.length).toBeLessThan(500);
  expect((await searched).rows).toEqual([]);
});
