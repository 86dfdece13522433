/** What the receiver asks of its runtime: each wait has the time that the docs name, and leaves no timer behind. */
import { getEventListeners } from 'node:events';
import {
  createReceiver,
  type Inbox,
  type InboxOperations,
  memoryInbox,
  PermanentError,
  type ReceiverOptions,
  SIGNATURE_HEADER,
  toWebhookResponse,
} from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred, delivery, secret } from './delivery.js';

/** A runtime whose timers call back when the test says so. */
function manualRuntime({ random = 0 } = {}) {
  const timers = new Map<number, { readonly callback: () => void; readonly ms: number }>();
  /** The time of every timer that was ever set. */
  const asked: number[] = [];
  const clock = { elapsed: 5_000 };
  let last = 0;
  const runtime = {
    elapsed: () => clock.elapsed,
    random: () => random,
    setTimeout(callback: () => void, ms: number) {
      last += 1;
      timers.set(last, { callback, ms });
      asked.push(ms);
      return last;
    },
    clearTimeout: (timer: unknown) => void timers.delete(timer as number),
  };
  const pending = () => [...timers.values()].map(({ ms }) => ms);
  /** Calls the timers of this time back. */
  const fire = (ms: number) => {
    const due = [...timers].filter(([, timer]) => timer.ms === ms);
    for (const [id, { callback }] of due) {
      timers.delete(id);
      callback();
    }
    return due.length;
  };
  return { clock, runtime, asked, pending, fire };
}

const durable = (): Inbox & InboxOperations => ({ ...memoryInbox(), durable: true });

type Handler = NonNullable<ReceiverOptions['handlers']['transfer.settled']>;

function setUp(handler: Handler, options: Partial<ReceiverOptions> = {}, random = 0) {
  const manual = manualRuntime({ random });
  const lines: string[] = [];
  const kinds: string[] = [];
  const log = (line: string) => void lines.push(line);
  const receiver = createReceiver({
    secret,
    inbox: durable(),
    handlers: { 'transfer.settled': handler },
    onOutcome: ({ kind }) => void kinds.push(kind),
    logger: { warn: log, error: log },
    runtime: manual.runtime,
    ...options,
  });
  return { ...manual, receiver, lines, kinds };
}

/** Waits until it holds, on a busy machine, too. */
const until = (holds: () => boolean) => vi.waitUntil(holds, { timeout: 60_000, interval: 1 });

const down = () => Promise.reject(new Error('down'));

describe('close resolves without waiting for a timer', () => {
  test.each<[string, Handler, Partial<ReceiverOptions>]>([
    ['was handled', async () => undefined, {}],
    ['failed', down, {}],
    ['was not claimed because the inbox failed', () => undefined, { inbox: { ...durable(), claim: down } }],
    [
      'was not completed because the inbox failed',
      () => undefined,
      { inbox: { ...durable(), complete: down } },
    ],
    ['was not enqueued because the queue failed', () => undefined, { queue: { enqueue: down } }],
  ])('after a delivery that %s, whose timers are cleared', async (_name, handler, options) => {
    const { receiver, pending } = setUp(handler, { ...options, leaseMs: 70_000 });
    await receiver.receive(await delivery(anEvent()));
    // The wait of the watch for events that nothing runs: two leases after the retry time or the lease.
    expect(pending().filter((ms) => ms < 140_000)).toEqual([]);
    await receiver.close();
    expect(pending().filter((ms) => ms < 140_000)).toEqual([]);
  });

  test('after deliveries that were rejected before and after their signature was verified', async () => {
    const { receiver, kinds, pending } = setUp(() => undefined);
    await receiver.receive(await delivery(anEvent(), { headers: { [SIGNATURE_HEADER]: 'wrong' } }));
    await receiver.receive(await delivery('not an event'));
    await receiver.receive({ ...(await delivery(anEvent())), body: down });
    expect(kinds).toEqual(['rejected', 'rejected', 'failed']);
    await receiver.close();
    expect(pending()).toEqual([]);
  });

  test('after a redrive that rejected, and one that ran what was due', async () => {
    const inbox = durable();
    let isDown = true;
    const takeDue: Inbox['takeDue'] = (options) => (isDown ? down() : inbox.takeDue(options));
    const { receiver, pending } = setUp(async () => undefined, { inbox: { ...inbox, takeDue } });
    await expect(receiver.redrive()).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED' });
    isDown = false;
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    expect(await receiver.redrive()).toMatchObject({ handled: 1 });
    await receiver.close();
    expect(pending()).toEqual([]);
  });

  test('after a delivery that was answered first, whose handler failed', async () => {
    const { receiver, kinds, fire } = setUp(down, { acknowledge: 'recorded' });
    await receiver.receive(await delivery(anEvent()));
    await until(() => fire(0) === 1);
    await receiver.close();
    expect(kinds).toEqual(['queued', 'failed']);
  });

  test('after a handler that outlived its limit and has ended', async () => {
    const end = deferred();
    const { receiver, kinds, fire, pending } = setUp(() => end.promise, {
      handlerTimeoutMs: 3_000,
      leaseMs: 10_000,
    });
    const answer = receiver.handle(anEvent(), 'push');
    await until(() => fire(3_000) === 1);
    expect((await answer).error?.code).toBe('ERR_HANDLER_TIMEOUT');
    // The rest of the lease.
    expect(pending()).toEqual([7_000]);
    end.resolve();
    await receiver.close();
    expect(kinds).toEqual(['failed', 'handled']);
    expect(pending()).toEqual([]);
  });
});

test('close waits for leaseMs and not longer for an inbox that has stopped answering', async () => {
  const { receiver, fire, pending } = setUp(() => undefined, {
    inbox: { ...durable(), claim: () => new Promise<never>(() => undefined) },
    leaseMs: 45_000,
  });
  void receiver.handle(anEvent(), 'push');
  const closed = receiver.close();
  expect(pending()).toEqual([45_000]);
  fire(45_000);
  await closed;
});

test('a body is waited for as long as bodyTimeoutMs, and then its reading is cancelled', async () => {
  const { receiver, fire, pending } = setUp(() => undefined, { bodyTimeoutMs: 2_500 });
  const cancelBody = vi.fn();
  const request = {
    ...(await delivery(anEvent())),
    cancelBody,
    body: () => new Promise<never>(() => undefined),
  };
  const answer = receiver.receive(request);
  await until(() => pending().length === 1);
  expect(pending()).toEqual([2_500]);
  expect(cancelBody).not.toHaveBeenCalled();
  fire(2_500);
  const { error } = await answer;
  expect(error?.code).toBe('ERR_BODY_TIMEOUT');
  expect(error?.message).toContain('within 2500 ms. Raise bodyTimeoutMs');
  expect(cancelBody).toHaveBeenCalledOnce();
});

test('what continues after the answer is kept alive for the rest of the lease, from the answer on', async () => {
  const { receiver, clock, fire, asked, kinds } = setUp(
    () => {
      clock.elapsed += 10_000;
    },
    { acknowledge: 'recorded', leaseMs: 60_000 },
  );
  await receiver.receive(await delivery(anEvent()));
  await until(() => fire(0) === 1);
  await until(() => kinds.length === 2);
  await receiver.close();
  expect(asked).toContain(50_000);
});

test('a handler that begins late is told by its signal when its lease is over, before handlerTimeoutMs', async () => {
  const inbox = durable();
  const end = deferred();
  let signal: AbortSignal | undefined;
  const { receiver, clock, fire, asked } = setUp(
    (_, context) => {
      signal = context.signal;
      return end.promise;
    },
    {
      inbox: {
        ...inbox,
        async claim(event, options) {
          clock.elapsed += 55_000;
          return inbox.claim(event, options);
        },
      },
      leaseMs: 60_000,
      handlerTimeoutMs: 10_000,
    },
  );
  const answer = receiver.handle(anEvent(), 'push');
  await until(() => fire(5_000) === 1);
  expect(signal?.aborted).toBe(true);
  expect((await answer).error?.message).toContain('is still running after 5000 ms');
  // The inbox can have begun the lease as late as it answered, so close() waits that long.
  expect(asked).toEqual([5_000, 55_000]);
  end.resolve();
  await receiver.close();
});

describe('a handler whose lease is over before it can begin is not started, and its event stays claimed', () => {
  test.each([
    [60_000, 'busy', 0],
    [59_999, 'handled', 1],
  ])('in a process that was stopped for %i ms after its answer', async (stoppedMs, kind, runs) => {
    const handler = vi.fn();
    const { receiver, clock, fire, kinds, lines } = setUp(handler, {
      acknowledge: 'recorded',
      leaseMs: 60_000,
      maxConcurrency: 1,
    });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    clock.elapsed += stoppedMs;
    await until(() => fire(0) === 1);
    await receiver.close();
    expect(kinds).toEqual(['queued', kind]);
    expect(handler).toHaveBeenCalledTimes(runs);
    expect(lines.join('\n').includes('ERR_LEASE_LOST: The handler was not started')).toBe(runs === 0);
  });

  test('when the inbox takes that long to answer, and its slot is free again', async () => {
    const inbox = durable();
    const handler = vi.fn();
    const claim: Inbox['claim'] = async (event, options) => {
      const claimed = await inbox.claim(event, options);
      clock.elapsed += event.id === slow.id ? 60_000 : 0;
      return claimed;
    };
    const { receiver, clock } = setUp(handler, {
      inbox: { ...inbox, claim },
      leaseMs: 60_000,
      maxConcurrency: 1,
    });
    const slow = anEvent();
    expect(await receiver.receive(await delivery(slow))).toMatchObject({
      kind: 'busy',
      error: { code: 'ERR_LEASE_LOST', retryAfterMs: 1_000 },
    });
    expect(await inbox.find(slow.id)).toMatchObject({ state: 'leased', attempts: 1 });
    expect(handler).not.toHaveBeenCalled();
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
  });
});

describe('the wait after a failed attempt', () => {
  test.each([
    ['none', 0, 0.5],
    ['half', 0.5, 0.75],
  ])(
    'doubles from one second to one hour, minus a random part of up to a half: %s of which was left',
    async (_name, random, part) => {
      const waits: (number | null)[] = [];
      const inbox = durable();
      const fail: Inbox['fail'] = (lease, failure) => {
        waits.push(failure.retryAfterMs);
        return inbox.fail(lease, { ...failure, retryAfterMs: failure.retryAfterMs && 0 });
      };
      const { receiver } = setUp(down, { inbox: { ...inbox, fail }, maxAttempts: 15 }, random);
      const event = anEvent();
      for (let attempt = 1; attempt <= 15; attempt++) await receiver.handle(event, 'push');
      const full = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600];
      expect(waits).toEqual([...full.map((seconds) => seconds * 1_000 * part), null]);
    },
  );

  test('of looks for stored events that fail doubles from one second to one minute', async () => {
    const { receiver, asked, fire, lines } = setUp(
      () => undefined,
      { acknowledge: 'recorded', maxConcurrency: 1, inbox: { ...durable(), takeDue: down }, leaseMs: 90_000 },
      0.5,
    );
    const requests = await Promise.all([delivery(anEvent()), delivery(anEvent())]);
    await Promise.all(requests.map((request) => receiver.receive(request)));
    // The one with the slot runs, and then the other is looked for.
    await until(() => fire(0) === 1);
    const expected = [750, 1_500, 3_000, 6_000, 12_000, 24_000, 45_000, 45_000];
    for (const [index, ms] of expected.entries()) {
      const waits = () => asked.filter((each) => expected.includes(each));
      await until(() => waits().length > index);
      expect(waits().at(-1)).toBe(ms);
      fire(ms);
    }
    expect(lines.filter((line) => line.includes('stored events could not be run'))).toHaveLength(1);
  });

  test.each([
    ['four fifths', 0, 4_000],
    ['all', 0.5, 5_000],
  ])('of receiver.run between two looks is about intervalMs: %s of it', async (_name, random, ms) => {
    const { receiver, pending } = setUp(() => undefined, {}, random);
    const ended = receiver.run();
    await until(() => pending().length === 1);
    expect(pending()).toEqual([ms]);
    await receiver.close();
    await ended;
    expect(pending()).toEqual([]);
  });
});

describe('Retry-After', () => {
  test('is 5 s while the receiver closes, and also when the inbox fails', async () => {
    const { receiver } = setUp(() => undefined, { inbox: { ...durable(), claim: down } });
    const retryAfter = async () =>
      toWebhookResponse(await receiver.receive(await delivery(anEvent()))).headers['retry-after'];
    expect(await retryAfter()).toBe('5');
    await receiver.close();
    expect(await retryAfter()).toBe('5');
  });

  test.each([
    [0, '1'],
    [0.5, '3'],
    [0.999, '5'],
  ])(
    'above maxConcurrency is between 1 and 5 s: with the random number %s it is %s',
    async (random, seconds) => {
      const end = deferred();
      const { receiver, kinds } = setUp(() => end.promise, { maxConcurrency: 1 }, random);
      const running = receiver.handle(anEvent(), 'pull');
      const refused = await receiver.receive(await delivery(anEvent()));
      expect(toWebhookResponse(refused).headers['retry-after']).toBe(seconds);
      end.resolve();
      await running;
      expect(kinds).toEqual(['busy', 'handled']);
    },
  );
});

test('an outcome has how long its handler ran, in whole ms, without the time of the inbox', async () => {
  const inbox = durable();
  const { receiver, clock } = setUp(
    async () => {
      clock.elapsed += 1_250.4;
    },
    {
      inbox: {
        ...inbox,
        complete(lease) {
          clock.elapsed += 100;
          return inbox.complete(lease);
        },
      },
    },
  );
  expect(await receiver.handle(anEvent(), 'push')).toMatchObject({ kind: 'handled', handlerMs: 1_250 });
});

describe('an event that nothing runs', () => {
  test('is told about two leases after its retry time, and no timer is left', async () => {
    const inbox = durable();
    const { receiver, pending, fire, lines } = setUp(down, {
      inbox,
      leaseMs: 60_000,
      handlerTimeoutMs: 1_000,
    });
    const event = anEvent();
    await receiver.handle(event, 'push');
    expect(pending()).toEqual([120_500]);
    fire(120_500);
    const told = () => lines.filter((line) => line.includes('nothing runs it'));
    await until(() => told().length === 1);
    expect(told()[0]).toContain(`${event.id} is stored and was due 120 s ago`);
    expect(pending()).toEqual([]);
  });

  test('is not waited for when it is dead', async () => {
    const { receiver, pending } = setUp(() => Promise.reject(new PermanentError('closed')));
    expect((await receiver.handle(anEvent(), 'push')).kind).toBe('dead');
    expect(pending()).toEqual([]);
  });

  test('is told about two leases after the lease of another process that it waits for', async () => {
    const inbox = durable();
    const { receiver, asked } = setUp(() => undefined, {
      acknowledge: 'recorded',
      inbox: { ...inbox, claim: async () => ({ state: 'waiting', retryAfterMs: 7_000 }) },
      leaseMs: 60_000,
    });
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('queued');
    expect(asked).toContain(127_000);
    const leased = setUp(() => undefined, {
      acknowledge: 'recorded',
      inbox: { ...inbox, claim: async () => ({ state: 'leased', retryAfterMs: 7_000 }) },
      leaseMs: 60_000,
    });
    expect((await leased.receiver.receive(await delivery(anEvent()))).kind).toBe('queued');
    expect(leased.asked).not.toContain(127_000);
  });

  test.each<[string, Partial<ReceiverOptions>]>([
    ['its key, which another process holds', { orderingKey: () => 'key' }],
    ['a slot, which another event of this process has', { maxConcurrency: 1 }],
  ])('is told about under its id when it waits for %s', async (_name, options) => {
    const end = deferred();
    const inbox = durable();
    const parts = setUp(() => end.promise, {
      inbox,
      acknowledge: 'recorded',
      leaseMs: 60_000,
      ...options,
    });
    const { receiver, pending, fire, lines } = parts;
    await inbox.claim(anEvent(), { leaseMs: 30_000, origin: 'push', key: 'key' });
    const [first, second] = [anEvent(), anEvent()];
    for (const event of [first, second]) {
      expect((await receiver.receive(await delivery(event))).kind).toBe('queued');
    }
    const waits = options.maxConcurrency === undefined ? first : second;
    const told = () => lines.filter((line) => line.includes('nothing runs it'));
    await until(() => {
      for (const ms of pending()) if (ms >= 120_000) fire(ms);
      return told().length === 1;
    });
    expect(told()[0]).toContain(`${waits.id} is stored`);
    fire(0);
    end.resolve();
    await receiver.close();
  });

  test.each(['is redriven', 'is closed', 'runs what is due'] as const)(
    'is not told about once the receiver %s',
    async (what) => {
      const { receiver, fire, lines } = setUp(down, { leaseMs: 60_000, handlerTimeoutMs: 1_000 });
      await receiver.handle(anEvent(), 'push');
      if (what === 'is redriven') await receiver.redrive();
      const running = what === 'runs what is due' ? receiver.run() : undefined;
      if (what === 'is closed') await receiver.close();
      fire(120_500);
      await new Promise(setImmediate);
      expect(lines.filter((line) => line.includes('nothing runs it'))).toEqual([]);
      await receiver.close();
      await running;
    },
  );
});

describe('an event that nothing runs any more is told about', () => {
  /** A durable inbox whose clock the test sets, and an event that failed in a receiver of it. */
  async function failed(options: Partial<ReceiverOptions> = {}) {
    const time = { now: 0 };
    const inbox = { ...memoryInbox({ runtime: { now: () => time.now } }), durable: true };
    const parts = setUp(down, { inbox, leaseMs: 60_000, handlerTimeoutMs: 1_000, ...options });
    const event = anEvent();
    const told = () => parts.lines.filter((line) => line.includes('nothing runs it'));
    return { ...parts, time, inbox, event, told };
  }

  /** Lets the timers of two leases and more call back, until it is told. */
  async function pass({ pending, fire, told }: Awaited<ReturnType<typeof failed>>) {
    await until(() => {
      for (const ms of pending()) if (ms >= 120_000) fire(ms);
      return told().length === 1;
    });
  }

  test('when the last redrive was more than two leases ago', async () => {
    const parts = await failed();
    const { receiver, event, clock, pending, fire, told } = parts;
    await receiver.redrive();
    await receiver.handle(event, 'push');
    clock.elapsed += 119_999;
    fire(120_500);
    await until(() => pending().includes(120_000));
    expect(told()).toEqual([]);
    clock.elapsed += 1;
    fire(120_000);
    await until(() => told().length === 1);
    expect(told()[0]).toContain(event.id);
  });

  test('when it was requeued and the process that then ran it has ended, and not while it runs', async () => {
    const parts = await failed();
    const { receiver, event, inbox, time, pending, fire, told } = parts;
    await receiver.handle(event, 'push');
    time.now += 120_000;
    await inbox.requeue(event.id);
    await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    fire(120_500);
    await until(() => pending().includes(180_000));
    expect(told()).toEqual([]);
    fire(180_000);
    await until(() => told().length === 1);
    expect(pending()).toEqual([]);
  });

  test('when run() has ended, and not while it runs', async () => {
    const parts = await failed();
    const { receiver, event, pending, fire, told } = parts;
    const controller = new AbortController();
    const running = receiver.run({ signal: controller.signal });
    await receiver.handle(event, 'push');
    fire(120_500);
    await until(() => pending().includes(120_000));
    expect(told()).toEqual([]);
    controller.abort();
    await running;
    await pass(parts);
  });

  test('when the inbox could not be asked in between', async () => {
    const parts = await failed();
    const { receiver, inbox, event } = parts;
    await receiver.handle(event, 'push');
    const find = vi.spyOn(inbox, 'find').mockRejectedValueOnce(new Error('down'));
    await pass(parts);
    expect(find.mock.calls.length).toBeGreaterThan(1);
  });

  test('when the one that was watched before it is gone from the inbox', async () => {
    const parts = await failed();
    const { receiver, inbox, event, fire, told } = parts;
    await receiver.handle(event, 'push');
    const find = vi.spyOn(inbox, 'find').mockResolvedValueOnce(undefined);
    fire(120_500);
    await until(() => find.mock.settledResults.length === 1);
    await new Promise(setImmediate);
    const next = anEvent();
    await receiver.handle(next, 'push');
    await pass(parts);
    expect(told()[0]).toContain(next.id);
  });

  test('when the process that ran it again has died', async () => {
    const parts = await failed();
    const { receiver, inbox, event, time, pending, fire, told } = parts;
    await receiver.handle(event, 'push');
    time.now += 3_600_000;
    expect((await inbox.claim(event, { leaseMs: 7_000, origin: 'redrive' })).state).toBe('claimed');
    fire(120_500);
    // Two leases after the one of the process that died.
    await until(() => pending().includes(127_000));
    expect(told()).toEqual([]);
    fire(127_000);
    await until(() => told().length === 1);
  });
});

test('deliveries that were answered all run, also when each handler takes as long as a lease', async () => {
  const { receiver, clock, kinds, fire } = setUp(
    async () => {
      clock.elapsed += 60_000;
    },
    { acknowledge: 'recorded', maxConcurrency: 1, leaseMs: 60_000 },
  );
  for (let count = 0; count < 4; count++) await receiver.receive(await delivery(anEvent()));
  await until(() => fire(0) === 1);
  await until(() => kinds.filter((kind) => kind === 'handled').length === 4);
  await receiver.close();
});

describe('redrive', () => {
  test('runs at most 16 events at the same time', async () => {
    const inbox = durable();
    let running = 0;
    let most = 0;
    const { receiver } = setUp(
      async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
      },
      { inbox },
    );
    const events = Array.from({ length: 60 }, () => anEvent());
    await inbox.record(events, { dueInMs: 0, origin: 'pull' });
    expect(await receiver.redrive()).toMatchObject({ handled: 60 });
    expect(most).toBe(16);
  });

  test('leaves no listener on its signal, whether it ran to its end, was aborted or failed', async () => {
    const inbox = durable();
    const { signal } = new AbortController();
    const { receiver } = setUp(() => undefined, { inbox });
    await receiver.redrive({ signal });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    const failing = setUp(() => undefined, { inbox: { ...inbox, takeDue: down } });
    await expect(failing.receiver.redrive({ signal })).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED' });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    const controller = new AbortController();
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    const aborting = setUp(() => controller.abort(), { inbox });
    expect(await aborting.receiver.redrive({ signal: controller.signal })).toMatchObject({ handled: 1 });
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });
});
