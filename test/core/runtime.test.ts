import { createReceiver, memoryInbox, type RuntimeOptions } from 'stablehooks';
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

test('a receiver takes the time of its own memory inbox, its timers and its randomness from its runtime', async () => {
  const timers = new Map<number, { readonly callback: () => void; readonly ms: number }>();
  const runtime: RuntimeOptions = {
    now: () => 5_000,
    elapsed: () => 0,
    random: () => 0.5,
    setTimeout: (callback, ms) => {
      timers.set(timers.size + 1, { callback, ms });
      return timers.size;
    },
    clearTimeout: (timer) => void timers.delete(Number(timer)),
  };
  const receiver = createReceiver({
    secret: 'whsec_test',
    handlerTimeoutMs: 700,
    runtime,
    logger: { warn: () => undefined, error: () => undefined },
    handlers: { 'transfer.settled': () => new Promise<void>(() => undefined) },
  });
  const outcome = receiver.handle(exampleEvent('transfer.settled', { id: 'evt_1' }), 'push');
  await expect.poll(() => [...timers.values()].map(({ ms }) => ms)).toContain(700);
  for (const { callback, ms } of timers.values()) if (ms === 700) callback();

  expect(await outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_HANDLER_TIMEOUT' } });
});
