/** `receiver.start()`: what is due runs, now, at intervals, and when something may be due. */
import type { Inbox } from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent, deferred } from './delivery.js';
import { down, durable, gated, manualRuntime, settled, setUp, someEvents, until } from './set-up.js';

const due = { dueInMs: 0, origin: 'pull' } as const;

test.each([
  [0, 800],
  [0.75, 1_100],
])(
  'it returns nothing, and runs what is due now and about every intervalMs, until its signal aborts',
  async (random, waitMs) => {
    const controller = new AbortController();
    const { runtime, pending, fire } = manualRuntime(random);
    const { receiver, inbox, handled, lines } = setUp(undefined, { inbox: durable(), runtime });
    await inbox.record([anEvent()], due);
    expect(receiver.start({ intervalMs: 1_000, signal: controller.signal })).toBeUndefined();
    await until(() => pending().length > 0);
    expect([handled(), pending()]).toEqual([1, [waitMs]]);
    await inbox.record([anEvent()], due);
    fire(waitMs);
    await until(() => pending().length > 0);
    expect([handled(), pending()]).toEqual([2, [waitMs]]);
    await inbox.record([anEvent()], due);
    controller.abort();
    await settled();
    expect([handled(), pending(), lines]).toEqual([2, [], []]);
  },
);

test('it starts nothing when its signal has aborted before', async () => {
  const { runtime, pending } = manualRuntime();
  const { receiver, inbox, handled } = setUp(undefined, { inbox: durable(), runtime });
  await inbox.record([anEvent()], due);
  receiver.start({ signal: AbortSignal.abort() });
  await settled();
  expect([handled(), pending()]).toEqual([0, []]);
});

test('close() ends it, and events that were taken have run by then', async () => {
  const { handler, begun, end } = gated();
  const { receiver, inbox, handled } = setUp(handler, { inbox: durable() });
  await inbox.record(someEvents(100), due);
  receiver.start();
  await until(() => begun.length === 16);
  const closed = receiver.close();
  for (const id of begun) await end(id);
  await closed;
  expect(handled()).toBe(16);
});

test('a pass whose time is up is followed by the next without a pause', async () => {
  const { runtime, clock } = manualRuntime();
  const { receiver, inbox, handled } = setUp(
    () => {
      clock.elapsed += 60_000;
    },
    { inbox: durable(), maxConcurrency: 1, leaseMs: 60_000, runtime },
  );
  await inbox.record(someEvents(3), due);
  receiver.start({ intervalMs: 3_600_000 });
  await until(() => handled() === 3);
  await receiver.close();
});

test('an event that waits for its ordering key runs once the other has ended, long before the interval is over', async () => {
  const { handler, begun, end } = gated();
  const { receiver, inbox, deliver } = setUp(handler, { inbox: durable(), orderingKey: () => 'key' });
  receiver.start({ intervalMs: 3_600_000 });
  const [first, second] = [anEvent(), anEvent()];
  const running = deliver(first);
  await until(() => begun.length === 1);
  expect((await deliver(second)).error?.code).toBe('ERR_KEY_BUSY');
  await end(first.id);
  await running;
  await end(second.id);
  await receiver.close();
  expect(await inbox.find(second.id)).toMatchObject({ state: 'done' });
});

test('an event that waits for its ordering key runs once an overdue handler has ended', async () => {
  const { handler, begun, end } = gated();
  const options = { inbox: durable(), orderingKey: () => 'key', handlerTimeoutMs: 1 };
  const { receiver, inbox, deliver } = setUp(handler, options);
  receiver.start({ intervalMs: 3_600_000 });
  const [first, second] = [anEvent(), anEvent()];
  expect((await deliver(first)).error?.code).toBe('ERR_HANDLER_TIMEOUT');
  expect((await deliver(second)).error?.code).toBe('ERR_KEY_BUSY');
  await end(first.id);
  await until(() => begun.length === 2);
  await end(second.id);
  await receiver.close();
  expect(await inbox.find(second.id)).toMatchObject({ state: 'done' });
});

test('an event that is stored because the receiver is full has its ordering key', async () => {
  const { handler, begun, end } = gated();
  const options = { inbox: durable(), orderingKey: ({ id }: { readonly id: string }) => `of ${id}` };
  const { receiver, inbox, deliver } = setUp(handler, { ...options, answer: 'recorded', maxConcurrency: 1 });
  receiver.start({ intervalMs: 3_600_000 });
  const [first, second] = [anEvent(), anEvent()];
  await deliver(first);
  await until(() => begun.length === 1);
  await deliver(second);
  expect(await inbox.find(second.id)).toMatchObject({ state: 'received', key: `of ${second.id}` });
  await end(first.id);
  await end(second.id);
  await receiver.close();
});

test('it logs one line when the inbox fails and one when it works again, each time', async () => {
  const inbox = durable();
  let isDown = true;
  let passes = 0;
  const takeDue: Inbox['takeDue'] = (options) => {
    passes += 1;
    return isDown ? down() : inbox.takeDue(options);
  };
  const { receiver, lines } = setUp(undefined, { inbox: { ...inbox, takeDue } });
  receiver.start({ intervalMs: 1 });
  for (const turn of [1, 2]) {
    const before = passes;
    await until(() => passes > before + 3);
    isDown = false;
    await until(() => lines.length === 2 * turn);
    isDown = true;
    await until(() => lines.length === 2 * turn + 1);
  }
  await receiver.close();
  const failure = expect.stringMatching(/cannot read due events .* tries again about every 1 ms.*down/s);
  const recovery = expect.stringMatching(/the receiver can read due events from the inbox again/);
  expect(lines).toEqual([failure, recovery, failure, recovery, failure]);
});

test('a second start, and wrong options, are refused, as is a start after close()', async () => {
  const { receiver } = setUp();
  expect(() => receiver.start({ intervalMs: 0 })).toThrow(/receiver\.start: `intervalMs` must be an integer/);
  expect(() => receiver.start({ signal: {} as AbortSignal })).toThrow(/`signal` must be an AbortSignal/);
  receiver.start();
  expect(() => receiver.start()).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  await receiver.close();
  const closed = setUp().receiver;
  await closed.close();
  expect(() => closed.start()).toThrow(/receiver\.start: the receiver is closed, so nothing would run\./);
});

test('deliveries that found no free slot run after the signal of start has aborted', async () => {
  const controller = new AbortController();
  const { handler, begun, end } = gated();
  const { receiver, deliver, handled } = setUp(handler, {
    inbox: durable(),
    answer: 'recorded',
    maxConcurrency: 1,
  });
  receiver.start({ signal: controller.signal });
  controller.abort();
  const [first, second] = [anEvent(), anEvent()];
  await deliver(first);
  await until(() => begun.length === 1);
  expect((await deliver(second)).kind).toBe('queued');
  await end(first.id);
  await end(second.id);
  await until(() => handled() === 2);
  expect(() => receiver.start()).toThrow(/the receiver was already started/);
  await receiver.close();
});

test('a wake-up during a pass is not lost', async () => {
  const inbox = durable();
  const asked = deferred();
  const gate = deferred();
  let calls = 0;
  const takeDue: Inbox['takeDue'] = async (options) => {
    calls += 1;
    const taken = await inbox.takeDue(options);
    if (calls > 1) return taken;
    asked.resolve();
    await gate.promise;
    return taken;
  };
  const { handler, begun, end } = gated();
  const { receiver, deliver, handled } = setUp(handler, {
    inbox: { ...inbox, takeDue },
    orderingKey: () => 'key',
  });
  const [first, second] = [anEvent(), anEvent()];
  void deliver(first);
  await until(() => begun.length === 1);
  receiver.start({ intervalMs: 3_600_000 });
  await asked.promise;
  await deliver(second);
  await end(first.id);
  await until(() => handled() === 1);
  gate.resolve();
  await end(second.id);
  await receiver.close();
});
