import { type InboxOperations, memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { noteSkipped, requeueAll } from '../../src/commands/inbox-actions.js';

test('the step that holds one of many events back is found by one question, and not by one for each event', async () => {
  const ids = Array.from({ length: 1_200 }, (_, index) => `evt_${index}`);
  const inbox = memoryInbox();
  for (const id of ids) {
    const event = exampleEvent('transfer.settled', { id });
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    if (claim.state !== 'claimed') throw new Error('The event is not claimed.');
    if (id === 'evt_1100') await inbox.saveStep?.(claim.lease, 'payout', null);
    await inbox.fail(claim.lease, { error: 'closed', retryAfterMs: null });
  }
  const asked: string[] = [];
  const counted: InboxOperations = {
    ...inbox,
    list: (query) => {
      asked.push('list');
      return inbox.list(query);
    },
    steps: (id) => {
      asked.push(id);
      return inbox.steps(id);
    },
  };
  const { requeued, held } = await requeueAll(counted, { ids, filter: { state: 'dead' } });
  expect([requeued, held]).toEqual([1_199, ['evt_1100']]);
  const notes: string[] = [];
  await noteSkipped(counted, held, { skipped: 1, printer: { note: (text) => notes.push(text) } });
  expect(notes).toEqual([expect.stringContaining('evt_1100 was not requeued: its step payout began')]);
  expect(asked).toEqual(['list', 'evt_1100']);
});
