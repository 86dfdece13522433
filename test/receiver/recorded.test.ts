/** `answer: 'recorded'`, and `waitUntil`, which keeps an invocation alive for what runs after its answer. */
import { type Inbox, type ReceiverOptions, toWebhookResponse, type UnknownEvent } from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred, delivery } from './delivery.js';
import {
  counting,
  down,
  durable,
  gated,
  isSettled,
  manualRuntime,
  never,
  type SettledHandler,
  setUp,
  someEvents,
  until,
} from './set-up.js';

/** A receiver that answers first, and deliveries with what their `waitUntil` got. */
function recording(handler?: SettledHandler, options: Partial<ReceiverOptions> = {}) {
  const parts = setUp(handler, { answer: 'recorded', inbox: durable(), ...options });
  const deliverWaiting = async (event: UnknownEvent = anEvent()) => {
    let work: Promise<unknown> | undefined;
    const waitUntil = (given: Promise<unknown>) => {
      work = given;
    };
    const outcome = await parts.receiver.receive({ ...(await delivery(event)), waitUntil });
    return { outcome, work };
  };
  return { ...parts, deliverWaiting };
}

describe("answer: 'recorded'", () => {
  test('a delivery is answered 202 before its handler begins, and onOutcome is called again with its end', async () => {
    const { handler, begun, end } = gated();
    const { deliver, inbox, outcomes } = recording(handler, { secret: ['other', 'whsec_receiver_test'] });
    const event = anEvent();
    const outcome = await deliver(event);
    expect([outcome.kind, toWebhookResponse(outcome).status]).toEqual(['queued', 202]);
    expect(begun).toEqual([]);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'received', origin: 'push' });
    await end(event.id);
    await until(() => outcomes.length === 2);
    expect(outcomes).toMatchObject([
      { kind: 'queued', origin: 'push', secretIndex: 1 },
      { kind: 'handled', origin: 'push', secretIndex: 1, attempt: 1 },
    ]);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done' });
  });

  test('a handler that fails after the answer is logged, and its event runs again when it is due', async () => {
    const { deliver, inbox, codes, lines } = recording(down);
    const event = anEvent();
    await deliver(event);
    await until(() => codes().length === 2);
    expect(codes()).toEqual(['queued', 'ERR_HANDLER_FAILED']);
    expect(lines.join()).toContain(event.id);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'failed' });
  });

  test('two deliveries of an event at the same time run it once, without a line', async () => {
    const handler = vi.fn();
    const { receiver, codeOf, lines } = recording(handler);
    const event = anEvent();
    expect(await Promise.all([codeOf(event), codeOf(event)])).toEqual(['queued', 'queued']);
    await receiver.close();
    expect(handler).toHaveBeenCalledOnce();
    expect(lines).toEqual([]);
  });

  test('close waits for the handlers of answered deliveries, and refuses further ones', async () => {
    const { handler, end } = gated();
    const { receiver, deliver, codeOf, codes } = recording(handler);
    const event = anEvent();
    await deliver(event);
    const closed = receiver.close();
    expect(await codeOf()).toBe('ERR_RECEIVER_CLOSED');
    expect(await isSettled(closed)).toBe(false);
    await end(event.id);
    await closed;
    expect(codes().at(-1)).toBe('handled');
  });

  test.each(['handled', 'recorded'] as const)(
    'a duplicate and a failing inbox leave their slot to the next delivery, answered once %s',
    async (answer) => {
      const inbox = durable();
      let isDown = true;
      const options = {
        claim: (...args: Parameters<Inbox['claim']>) => (isDown ? down() : inbox.claim(...args)),
        record: (...args: Parameters<Inbox['record']>) => (isDown ? down() : inbox.record(...args)),
      };
      const { codeOf, handled } = recording(undefined, {
        answer,
        inbox: { ...inbox, ...options },
        maxConcurrency: 1,
      });
      const event = anEvent();
      expect(await codeOf(event)).toBe('ERR_INBOX_FAILED');
      isDown = false;
      await codeOf(event);
      await until(() => handled() === 1);
      expect([await codeOf(event), await codeOf(event)]).toEqual(['duplicate', 'duplicate']);
      await codeOf();
      await until(() => handled() === 2);
    },
  );
});

describe('above maxConcurrency', () => {
  test('deliveries are stored, answered 202, and run in turn as slots are free', async () => {
    const { handler, count } = counting();
    const { receiver, handled } = recording(handler, { maxConcurrency: 3 });
    const requests = await Promise.all(someEvents(100).map((event) => delivery(event)));
    const outcomes = await Promise.all(requests.map((request) => receiver.receive(request)));
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['queued']));
    await until(() => handled() === 100);
    expect(count.most).toBe(3);
  });

  test('all of them run, even if each handler takes as long as a lease', async () => {
    const { runtime, clock, fire } = manualRuntime();
    const { receiver, deliver, handled } = recording(
      async () => {
        clock.elapsed += 60_000;
      },
      { maxConcurrency: 1, leaseMs: 60_000, runtime },
    );
    for (let count = 0; count < 4; count++) await deliver();
    await until(() => fire(0) === 1);
    await until(() => handled() === 4);
    await receiver.close();
  });

  test('an inbox that cannot be asked for them is logged once, and asked again until they have run', async () => {
    const inbox = durable();
    let failures = 0;
    const takeDue: Inbox['takeDue'] = (options) => {
      if (failures === 2) return inbox.takeDue(options);
      failures += 1;
      return down();
    };
    const { runtime, fire } = manualRuntime();
    const { deliver, handled, lines } = recording(undefined, {
      maxConcurrency: 1,
      inbox: { ...inbox, takeDue },
      runtime,
    });
    for (let count = 0; count < 4; count++) await deliver();
    await until(() => {
      fire(0);
      fire(800);
      return handled() === 4;
    });
    expect(lines.filter((line) => line.includes('cannot read due events'))).toHaveLength(1);
  });

  test('waitUntil gets what runs the event once a slot is free, not only after a lease', async () => {
    const { handler, begun, end } = gated();
    const { deliverWaiting } = recording(handler, { maxConcurrency: 1 });
    const [first, second] = [anEvent(), anEvent()];
    const one = await deliverWaiting(first);
    await until(() => begun.length === 1);
    const two = await deliverWaiting(second);
    expect(two.outcome.kind).toBe('queued');
    expect(await isSettled(two.work)).toBe(false);
    await end(first.id);
    await end(second.id);
    await Promise.all([one.work, two.work]);
    expect(begun).toEqual([first.id, second.id]);
  });
});

describe('waitUntil', () => {
  test.each<[string, () => Promise<void>, string]>([
    ['ended well', async () => undefined, 'handled'],
    ['failed', down, 'ERR_HANDLER_FAILED'],
  ])('gets a promise that resolves once the handler has %s', async (_name, finish, code) => {
    const [started, gate] = [deferred(), deferred()];
    const { deliverWaiting, codes } = recording(async () => {
      started.resolve();
      await gate.promise;
      await finish();
    });
    const { work } = await deliverWaiting();
    await started.promise;
    expect(await isSettled(work)).toBe(false);
    gate.resolve();
    await work;
    expect(codes()).toEqual(['queued', code]);
  });

  test.each(['handled', 'recorded'] as const)(
    'gets a promise that resolves once an overdue handler has ended, or its lease, answered once %s',
    async (answer) => {
      const gate = deferred();
      const { deliverWaiting, codes } = recording(() => gate.promise, { answer, handlerTimeoutMs: 20 });
      const { work } = await deliverWaiting();
      await until(() => codes().includes('ERR_HANDLER_TIMEOUT'));
      expect(await isSettled(work)).toBe(false);
      gate.resolve();
      await work;
      expect(codes().slice(-2)).toEqual(['ERR_HANDLER_TIMEOUT', 'handled']);

      const lapsing = recording(never, { answer, handlerTimeoutMs: 20, leaseMs: 40 });
      const given = await lapsing.deliverWaiting();
      expect(given.work).toBeDefined();
      await given.work;
      expect(lapsing.lines.join()).toContain('ERR_LEASE_LOST');
    },
  );

  test.each([
    ['its key', { orderingKey: () => 'key' }, ['ERR_KEY_BUSY']],
    ['a slot', { maxConcurrency: 1 }, []],
  ])(
    'gets a promise that resolves once an event that waited for %s has ended, even one whose handler is overdue',
    async (_name, options, codesBefore) => {
      const gates = [deferred(), deferred()];
      const begun: string[] = [];
      const { deliverWaiting, outcomes, codes } = recording(
        async ({ id }) => {
          begun.push(id);
          await gates[begun.length - 1]?.promise;
        },
        { ...options, handlerTimeoutMs: 20, leaseMs: 600_000 },
      );
      const second = anEvent();
      const { work } = await deliverWaiting();
      await until(() => begun.length === 1);
      await deliverWaiting(second);
      await until(() => codesBefore.every((code) => codes().includes(code)));
      gates[0]?.resolve();
      await until(() =>
        outcomes.some(({ event, error }) => event?.id === second.id && error?.code === 'ERR_HANDLER_TIMEOUT'),
      );
      expect(await isSettled(work)).toBe(false);
      gates[1]?.resolve();
      await work;
    },
  );

  test('that throws is logged, and the handler runs', async () => {
    const { receiver, lines, handled } = recording();
    const waitUntil = () => {
      throw new TypeError('Illegal invocation');
    };
    expect((await receiver.receive({ ...(await delivery(anEvent())), waitUntil })).kind).toBe('queued');
    await until(() => handled() === 1);
    expect(lines.join()).toMatch(/waitUntil threw an error.*Illegal invocation/);
  });

  test("is called on its request, and not for a delivery without a rest or that isn't authentic", async () => {
    const { receiver } = recording();
    const on: unknown[] = [];
    const request = {
      ...(await delivery(anEvent())),
      waitUntil() {
        on.push(this);
      },
    };
    await receiver.receive(request);
    expect(on).toEqual([request]);
    const waitUntil = vi.fn();
    const forged = await delivery(anEvent(), { headers: { 'x-service-signature': '0'.repeat(64) } });
    await receiver.receive({ ...forged, waitUntil });
    await setUp().receiver.receive({ ...(await delivery(anEvent())), waitUntil });
    expect(waitUntil).not.toHaveBeenCalled();
  });

  test.each(['accept', 'handle'] as const)(
    'of %s gets an overdue handler, and is not called otherwise',
    async (method) => {
      const gate = deferred();
      const slow = anEvent();
      const { receiver } = setUp(({ id }) => (id === slow.id ? gate.promise : undefined), {
        handlerTimeoutMs: 20,
      });
      const waitUntil = vi.fn((_work: Promise<unknown>) => undefined);
      expect((await receiver[method](anEvent(), 'pull', { waitUntil })).kind).toBe('handled');
      expect(waitUntil).not.toHaveBeenCalled();
      expect((await receiver[method](slow, 'pull', { waitUntil })).error?.code).toBe('ERR_HANDLER_TIMEOUT');
      const [work] = waitUntil.mock.lastCall ?? [];
      expect(await isSettled(work)).toBe(false);
      gate.resolve();
      await work;
      expect((await receiver[method](slow, 'pull')).kind).toBe('duplicate');
    },
  );

  test('of redrive gets overdue handlers; without it, redrive resolves when they have ended or its signal aborts', async () => {
    const gate = deferred();
    const { receiver, inbox, codes } = setUp(() => gate.promise, {
      inbox: durable(),
      handlerTimeoutMs: 20,
      leaseMs: 600_000,
    });
    const controller = new AbortController();
    const waitUntil = vi.fn((_work: Promise<unknown>) => undefined);
    const redriven: Promise<unknown>[] = [];
    for (const options of [{}, { signal: controller.signal }, { waitUntil }]) {
      await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
      redriven.push(receiver.redrive(options));
      await until(() => codes().length === redriven.length);
    }
    const [waiting, aborted, given] = redriven;
    expect(await given).toMatchObject({ failed: 1 });
    expect([await isSettled(waiting), await isSettled(aborted)]).toEqual([false, false]);
    controller.abort();
    expect(await aborted).toMatchObject({ failed: 1 });
    expect([await isSettled(waiting), await isSettled(waitUntil.mock.lastCall?.[0])]).toEqual([false, false]);
    gate.resolve();
    expect(await waiting).toMatchObject({ failed: 1 });
    await waitUntil.mock.lastCall?.[0];
    await receiver.redrive({ waitUntil });
    expect(waitUntil).toHaveBeenCalledOnce();
  });
});
