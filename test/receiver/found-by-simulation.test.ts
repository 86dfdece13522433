/** Defects that a seed of the simulation has shown, each as its shortest story. */
import { type Inbox, type InboxOperations, memoryInbox } from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent } from './delivery.js';
import { isSettled, never, settled, setUp } from './set-up.js';

const EVENT = anEvent();

/** The memory inbox, vouched durable, with some methods replaced. */
function durable(
  replaced: (inbox: Inbox & InboxOperations) => Partial<Inbox> = () => ({}),
  runtime = {},
): Inbox & InboxOperations {
  const inbox = memoryInbox({ runtime });
  return { ...inbox, durable: true, ...replaced(inbox) };
}

/** A clock that the test moves, and its timers. */
function manualClock() {
  let now = 0;
  const timers = new Map<() => void, number>();
  async function move(ms: number): Promise<void> {
    const until = now + ms;
    for (;;) {
      const due = [...timers].filter(([, at]) => at <= until).sort((a, b) => a[1] - b[1])[0];
      if (due === undefined) break;
      now = Math.max(now, due[1]);
      timers.delete(due[0]);
      due[0]();
      await settled();
    }
    now = until;
    await settled();
  }
  const runtime = {
    now: () => now,
    elapsed: () => now,
    setTimeout: (callback: () => void, ms: number) => {
      const timer = () => callback();
      timers.set(timer, now + ms);
      return timer;
    },
    clearTimeout: (timer: unknown) => void timers.delete(timer as () => void),
  };
  return { runtime, move };
}

test('close() waits for an overdue handler until its lease ends by the clock of the inbox, which began it after it was asked', async () => {
  const { runtime, move } = manualClock();
  const inbox = durable(
    ({ claim }) => ({
      claim: async (...given) => {
        await move(100);
        return claim(...given);
      },
    }),
    runtime,
  );
  const { receiver } = setUp(never, { inbox, runtime, leaseMs: 1_000, handlerTimeoutMs: 500 });
  const outcome = receiver.handle(EVENT, 'push');
  await move(0);
  await move(600);
  expect((await outcome).error?.code).toBe('ERR_HANDLER_TIMEOUT');
  const closed = receiver.close();
  await move(499 - 100);
  expect(await isSettled(closed)).toBe(false);
  await move(101);
  expect(await isSettled(closed)).toBe(true);
});

test('a job whose event no worker has a handler for ends, even if the inbox failed at its first attempt', async () => {
  let fails = true;
  const { runtime, move } = manualClock();
  const inbox = durable(({ complete }) => {
    return {
      complete: async (lease) => {
        if (!fails) return complete(lease);
        fails = false;
        throw new Error('down');
      },
    };
  }, runtime);
  const { receiver: worker } = setUp(undefined, { handlers: {}, inbox, runtime, maxAttempts: 3 });
  const kinds: string[] = [];
  for (let job = 1; job <= 4; job++) {
    kinds.push((await worker.handle(EVENT, 'queue')).kind);
    await move(60_000);
  }
  expect(kinds).toEqual(['unavailable', 'busy', 'busy', 'dead']);
  expect(await inbox.find(EVENT.id)).toMatchObject({
    state: 'dead',
    lastError: expect.stringContaining('recorded no result'),
  });
});
