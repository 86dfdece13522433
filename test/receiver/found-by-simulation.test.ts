/** Defects that a seed of the simulation has shown, each as its shortest story. */
import { type Inbox, type InboxOperations, memoryInbox } from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent, deferred } from './delivery.js';
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

test('an attempt whose connection failed lasts as long as its handler: its event stays leased, and close() waits', async () => {
  const { runtime, move } = manualClock();
  const [ends, fails] = [deferred(), deferred()];
  const lost = fails.promise.then(() => Promise.reject(new Error('lost')));
  const transaction: Inbox['transaction'] = (_lease, effect) =>
    Promise.race([Promise.resolve(effect(undefined)).then(() => true), lost]);
  const inbox = durable(() => ({ transaction }), runtime);
  const limits = { leaseMs: 10_000, handlerTimeoutMs: 1_000 };
  const { receiver } = setUp(() => ends.promise, { inbox, runtime, ...limits });
  const outcome = receiver.handle(EVENT, 'push');
  await move(0);
  await move(1_000);
  expect((await outcome).error?.code).toBe('ERR_HANDLER_TIMEOUT');
  fails.resolve();
  const closed = receiver.close();
  await move(5_000);
  expect(await inbox.find(EVENT.id)).toMatchObject({ state: 'leased' });
  expect(await isSettled(closed)).toBe(false);
  ends.resolve();
  expect(await isSettled(closed)).toBe(true);
});

test('an overdue last attempt whose commit had no answer records no failure: its event may be done', async () => {
  const { runtime, move } = manualClock();
  // In Postgres such a failure would make the done event dead, as that of a handler that ended its own transaction.
  const failures: string[] = [];
  const inbox = durable(
    ({ complete, fail }) => ({
      async transaction(lease, effect) {
        await effect(undefined);
        await complete(lease);
        throw new Error('lost');
      },
      fail(lease, options) {
        failures.push(options.error);
        return fail(lease, options);
      },
    }),
    runtime,
  );
  const ends = deferred();
  const limits = { leaseMs: 10_000, handlerTimeoutMs: 1_000, maxAttempts: 1 };
  const { receiver } = setUp(() => ends.promise, { inbox, runtime, ...limits });
  const outcome = receiver.handle(EVENT, 'push');
  await move(0);
  await move(1_000);
  expect((await outcome).error?.code).toBe('ERR_HANDLER_TIMEOUT');
  ends.resolve();
  await receiver.close();
  expect(failures).toEqual([]);
  expect(await inbox.find(EVENT.id)).toMatchObject({ state: 'done' });
});
