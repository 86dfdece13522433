/** The page and the commands select the same events. */
import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { expect, onTestFinished, test } from 'vitest';
import type { EventPage } from '../../src/inspector/api.js';
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
