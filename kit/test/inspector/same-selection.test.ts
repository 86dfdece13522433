/** The page and the commands select the same events. */
import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { expect, onTestFinished, test } from 'vitest';
import type { EventPage } from '../../src/inspector/api.js';
import { findEvents } from '../../src/io/event-filter.js';
import { fail } from '../inbox-states.js';

test('a span of the page selects by the last change, as --since and --until do', async () => {
  let now = Date.parse('2026-03-01T10:00:00Z');
  const inbox = memoryInbox({ runtime: { now: () => now } });
  const event = exampleEvent('transfer.settled');
  await fail(inbox, event, { retryAfterMs: 0 });
  const span = { updatedSince: now + 1, updatedUntil: now + 3_600_001 };
  now += 3_600_000;
  await fail(inbox, event, { early: true });
  const inspector = createInspector({ source: fromInbox(inbox, { name: 'app' }), authorize: () => true });
  onTestFinished(() => inspector.close());
  const query = `state=dead&since=${span.updatedSince}&until=${span.updatedUntil}`;
  const answer = await inspector.fetch(new Request(`https://app.example/api/events?${query}`));
  const { rows }: EventPage = await answer.json();
  expect(rows.map(({ id }) => id)).toEqual([event.id]);
  expect(await inbox.list({ state: 'dead', limit: 9, ...span })).toMatchObject([{ id: event.id }]);
});

test('a group, attempts and a value of the payload select as the flags of the commands do', async () => {
  const inbox = memoryInbox();
  const eventOf = (id: string, transfer: string) =>
    exampleEvent('transfer.settled', { id, payload: { transfer_id: transfer } });
  const again = { retryAfterMs: 0, early: true };
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await fail(inbox, eventOf('evt_1', 'trf_1'), { ...again, error: 'ERR_A: account 1 is closed' });
  }
  await fail(inbox, eventOf('evt_2', 'trf_2'), { ...again, error: 'ERR_A: account 2 is closed' });
  await fail(inbox, eventOf('evt_3', 'trf_2'), { ...again, error: 'ERR_A: account 2 is closed for good' });
  const inspector = createInspector({ source: fromInbox(inbox, { name: 'app' }), authorize: () => true });
  onTestFinished(() => inspector.close());
  for (const [query, filter, ids] of [
    [{ group: 'ERR_A: account … is closed' }, { group: 'ERR_A: account … is closed' }, ['evt_1', 'evt_2']],
    [{ attempts: '2' }, { attempts: 2 }, ['evt_1']],
    [{ payload: 'payload.transfer_id=trf_2' }, { payload: [['transfer_id', 'trf_2']] }, ['evt_2', 'evt_3']],
  ] as const) {
    const answer = await inspector.fetch(
      new Request(`https://app.example/api/events?${new URLSearchParams(query)}`),
    );
    const { rows }: EventPage = await answer.json();
    const found: string[] = [];
    for await (const { id } of findEvents(inbox, filter)) found.push(id);
    expect(rows.map(({ id }) => id).toSorted()).toEqual(ids);
    expect(found.toSorted()).toEqual(ids);
  }
});
