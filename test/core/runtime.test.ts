import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';

test('the methods of a class can be the parts of a runtime', async () => {
  class FixedTime {
    readonly #time = 1_000;
    now() {
      return this.#time;
    }
  }
  const inbox = memoryInbox({ runtime: new FixedTime() });
  await inbox.record([exampleEvent('transfer.settled', { id: 'evt_1' })], { dueInMs: 50, origin: 'pull' });
  expect(await inbox.find('evt_1')).toMatchObject({ receivedAt: 1_000, dueAt: 1_050 });
});
