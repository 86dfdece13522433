import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { type EventFilter, findEvents } from '../../src/io/event-filter.js';
import { complete, fail } from '../inbox-states.js';

async function fill() {
  let now = Date.parse('2026-03-01T10:00:00Z');
  const inbox = memoryInbox({ runtime: { now: () => now } });
  const event = (id: string, payload: Record<string, unknown> = {}) =>
    exampleEvent('transfer.settled', { id, payload });
  await complete(inbox, event('evt_done', { transfer_id: 'trf_1', account: { id: 'acc_1' }, fee: null }));
  await fail(inbox, event('evt_closed'), { error: 'ERR_HANDLER_PERMANENT: account 12 is closed' });
  await fail(inbox, event('evt_bank_1'), { error: 'ERR_HANDLER_FAILED: bank answered 503' });
  await fail(inbox, event('evt_bank_2'), { error: 'ERR_HANDLER_FAILED: bank answered 503 for trf_2' });
  await fail(inbox, event('EVT_twice'), { error: 'once', retryAfterMs: 0 });
  await fail(inbox, event('EVT_twice'), { error: 'twice', early: true });
  await inbox.claim(event('evt_expired'), { leaseMs: 1, origin: 'push' });
  now += 1_000;
  await fail(inbox, event('evt_expired'), { error: 'after a lease that expired' });
  return inbox;
}

const inbox = await fill();

async function find(filter: EventFilter): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const { id } of findEvents(inbox, filter)) ids.push(id);
  return ids;
}

test.for<[EventFilter, readonly string[]]>([
  [{ id: 'bank' }, ['evt_bank_1', 'evt_bank_2']],
  [{ id: 'evt_TWICE' }, ['EVT_twice']],
  [{ id: 'evt_done' }, ['evt_done']],
  [{ id: 'evt_done', state: 'dead' }, []],
  [{ attempts: 2 }, ['EVT_twice', 'evt_expired']],
  [{ payload: [['transfer_id', 'trf_1']] }, ['evt_done']],
  [
    {
      payload: [
        ['transfer_id', 'trf_1'],
        ['account.id', 'acc_1'],
      ],
    },
    ['evt_done'],
  ],
  [{ payload: [['transfer_id', 'trf_']] }, []],
  [{ payload: [['nothing', 'undefined']] }, []],
  [{ state: 'dead', error: 'bank answered 503' }, ['evt_bank_1', 'evt_bank_2']],
  [{ group: 'ERR_HANDLER_FAILED: bank answered 503' }, ['evt_bank_1']],
  [{ group: 'ERR_HANDLER_FAILED: bank answered 503 for …' }, ['evt_bank_2']],
  [{ state: 'dead', except: ['permanent'] }, ['evt_bank_1', 'evt_bank_2', 'EVT_twice', 'evt_expired']],
  [{ state: 'dead', except: ['permanent', 'expired'] }, ['evt_bank_1', 'evt_bank_2', 'EVT_twice']],
])('%j selects %j', async ([filter, ids]) => {
  expect((await find(filter)).toSorted()).toEqual(ids.toSorted());
});

test('every event is searched before none meets the filter, and each is read once', async () => {
  const large = memoryInbox();
  const ids = Array.from({ length: 1_200 }, (_, index) => `evt_${index}`);
  const events = ids.map((id) => exampleEvent('transfer.settled', { id }));
  await large.record(events, { dueInMs: 60_000, origin: 'pull' });
  const read: string[] = [];
  for await (const { id } of findEvents(large, {}, { order: 'newest' })) read.push(id);
  expect(read.toSorted()).toEqual(ids.toSorted());
  const [found] = [await findEvents(large, { id: '1199' }).next()];
  expect(found.value?.id).toBe('evt_1199');
});
