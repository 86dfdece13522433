/** `orderingKey` and `maxConcurrency`: which handlers may run at the same time. */
import { type Inbox, type ReceiverOptions, toWebhookResponse } from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, delivery } from './delivery.js';
import {
  counting,
  durable,
  gated,
  isSettled,
  manualRuntime,
  settled,
  setUp,
  someEvents,
  until,
} from './set-up.js';

const due = { dueInMs: 0, origin: 'pull' } as const;

const byAccount = (event: { readonly payload: Readonly<Record<string, unknown>> }) =>
  String(event.payload['account']);

/** Events of one account, the first created last. */
const eventsOf = (account: string, count: number) =>
  Array.from({ length: count }, (_, index) =>
    anEvent({
      created_at: new Date(Date.UTC(2026, 0, count - index)).toISOString(),
      payload: { account },
    }),
  );

/** Records events as the poller of a receiver with {@link byAccount} does. */
const recordKeyed = (inbox: Inbox, events: ReturnType<typeof eventsOf>) =>
  inbox.record(events, { ...due, keys: events.map(byAccount) });

describe('orderingKey', () => {
  test('a second delivery of a key is stored and answered 503 with Retry-After, and other keys run', async () => {
    const { handler, begun, end } = gated();
    const { receiver, inbox, deliver } = setUp(handler, {
      inbox: durable(),
      orderingKey: byAccount,
      handlerTimeoutMs: 4_000,
    });
    const [first, second, other] = [...eventsOf('a', 2), ...eventsOf('b', 1)];
    const running = deliver(first);
    await until(() => begun.length === 1);
    const refused = await deliver(second);
    expect(refused.error?.code).toBe('ERR_KEY_BUSY');
    expect(toWebhookResponse(refused)).toMatchObject({ status: 503, headers: { 'retry-after': '4' } });
    expect(await inbox.find(second?.id ?? '')).toMatchObject({ state: 'received', attempts: 0, key: 'a' });
    const parallel = deliver(other);
    await end(other?.id);
    expect((await parallel).kind).toBe('handled');
    await end(first?.id);
    expect((await running).kind).toBe('handled');
    const redriven = receiver.redrive();
    await end(second?.id);
    expect(await redriven).toMatchObject({ handled: 1 });
  });

  test('redrive runs the events of a key one after the other, and of those that it takes together the oldest first', async () => {
    const order: string[] = [];
    const { handler, count } = counting();
    const { receiver, inbox } = setUp(
      async (event, context) => {
        await handler(event, context);
        order.push(event.id);
      },
      { inbox: durable(), orderingKey: byAccount },
    );
    const events = eventsOf('a', 12);
    await recordKeyed(inbox, events);
    expect(await receiver.redrive()).toMatchObject({ handled: 12, busy: 0 });
    expect([count.most, order]).toEqual([1, events.map(({ id }) => id).reverse()]);
  });

  test("under answer: 'recorded' the events of a key are answered 202 and run one after the other, without start()", async () => {
    const { handler, begun, end } = gated();
    const { deliver, handled, codes } = setUp(handler, {
      inbox: durable(),
      answer: 'recorded',
      orderingKey: byAccount,
    });
    const events = eventsOf('a', 4);
    for (const event of events) {
      expect((await deliver(event)).kind).toBe('queued');
      await until(() => begun.length === 1);
    }
    await until(() => codes().filter((code) => code === 'ERR_KEY_BUSY').length === 3);
    const [first, ...waiting] = events.map(({ id }) => id);
    const order = [first, ...waiting.reverse()];
    for (const id of order) await end(id);
    await until(() => handled() === 4);
    expect(begun).toEqual(order);
  });

  test.each<[string, (event: { readonly id: string }) => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('the key is broken');
      },
      /the key is broken/,
    ],
    ['returns an empty string', () => '', /1 to 512 bytes long in UTF-8/],
    ['returns more than 512 bytes', () => 'é'.repeat(257), /1 to 512 bytes long in UTF-8/],
    ['returns a control character', () => 'a\u0000b', /no control characters/],
    ['is async', async () => 'a', /orderingKey must return/],
    [
      'returns another key at each call',
      () => crypto.randomUUID(),
      /a different key than when the event was claimed/,
    ],
  ])('that %s fails the attempt, and the handler does not run', async (_, orderingKey, message) => {
    const handler = vi.fn();
    const { inbox, deliver } = setUp(handler, {
      inbox: durable(),
      orderingKey: orderingKey as ReceiverOptions['orderingKey'],
    });
    const event = anEvent();
    const { error } = await deliver(event);
    expect(error?.code).toBe('ERR_HANDLER_FAILED');
    expect(String(error?.cause)).toMatch(message);
    expect(handler).not.toHaveBeenCalled();
    expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', attempts: 1 });
  });

  test.each([null, undefined])('that returns %s gives no key', async (none) => {
    const { inbox, codeOf } = setUp(undefined, { orderingKey: () => none });
    const event = anEvent();
    expect(await codeOf(event)).toBe('handled');
    expect(await inbox.find(event.id)).toMatchObject({ key: null });
  });

  test('the events of a key run in turn after the app has removed or changed its function', async () => {
    for (const orderingKey of [undefined, () => 'new', () => null]) {
      const { receiver, inbox } = setUp(undefined, { inbox: durable(), orderingKey });
      await recordKeyed(inbox, eventsOf('a', 5));
      expect(await receiver.redrive()).toMatchObject({ handled: 5 });
    }
  });

  test('an inbox that ignores keys fails every event that has one', async () => {
    const inbox = durable();
    const handler = vi.fn();
    const claim: Inbox['claim'] = (event, { key: _, ...options }) => inbox.claim(event, options);
    const { deliver } = setUp(handler, { inbox: { ...inbox, claim }, orderingKey: byAccount });
    expect(String((await deliver(eventsOf('a', 1)[0])).error?.cause)).toMatch(
      /the inbox must support ordering keys/,
    );
    expect(handler).not.toHaveBeenCalled();
  });
});

describe('maxConcurrency', () => {
  test('above it a delivery is answered 503 with Retry-After before its body is read, and not stored', async () => {
    const { handler, begun, end } = gated();
    const { receiver, inbox, deliver, codeOf } = setUp(handler, { maxConcurrency: 2 });
    const events = someEvents(2);
    const running = events.map((event) => deliver(event));
    await until(() => begun.length === 2);
    const event = anEvent();
    const refused = await delivery(event);
    const outcome = await receiver.receive(refused);
    expect(outcome.error?.code).toBe('ERR_RECEIVER_BUSY');
    expect(toWebhookResponse(outcome).headers['retry-after']).toMatch(/^[1-5]$/);
    expect([refused.reads, await inbox.find(event.id)]).toEqual([0, undefined]);
    for (const { id } of events) await end(id);
    await Promise.all(running);
    const last = codeOf(event);
    await end(event.id);
    expect(await last).toBe('handled');
  });

  test.each([
    [0, 1_000],
    [0.5, 3_000],
  ])('the time until the next try is between 1 and 5 s, by chance', async (random, retryAfterMs) => {
    const { handler, begun, end } = gated();
    const { runtime } = manualRuntime(random);
    const { deliver } = setUp(handler, { maxConcurrency: 1, runtime });
    const running = deliver();
    await until(() => begun.length === 1);
    expect((await deliver()).error).toMatchObject({
      retryAfterMs,
      message: expect.stringContaining('as many handlers as maxConcurrency allows'),
    });
    await end(begun[0]);
    await running;
  });

  test('deliveries whose bodies arrive together take no more slots than there are', async () => {
    const { handler, begun, end } = gated();
    const { receiver, codes } = setUp(handler, { maxConcurrency: 3 });
    const requests = await Promise.all(someEvents(20).map((event) => delivery(event)));
    const outcomes = requests.map((request) => receiver.receive(request));
    await until(() => begun.length === 3);
    for (const id of begun) await end(id);
    await Promise.all(outcomes);
    expect(codes().filter((code) => code === 'handled')).toHaveLength(3);
    expect(codes().filter((code) => code === 'ERR_RECEIVER_BUSY')).toHaveLength(17);
  });

  test('a delivery is enqueued above it: enqueuing runs no handler', async () => {
    const { handler, begun, end } = gated();
    const { receiver, codeOf } = setUp(handler, {
      inbox: durable(),
      maxConcurrency: 1,
      queue: { enqueue: async () => undefined },
    });
    const event = anEvent();
    const running = receiver.handle(event, 'queue');
    await until(() => begun.length === 1);
    expect(await codeOf()).toBe('queued');
    await end(event.id);
    await running;
  });

  test('a redrive that waits for a slot ends when its signal aborts, and its event stays stored', async () => {
    const { handler, begun, end } = gated();
    const { receiver, inbox, deliver } = setUp(handler, { inbox: durable(), maxConcurrency: 1 });
    const [running, stored] = [anEvent(), anEvent()];
    const handled = deliver(running);
    await until(() => begun.length === 1);
    await inbox.record([stored], due);
    const controller = new AbortController();
    const redriven = receiver.redrive({ signal: controller.signal });
    expect(await isSettled(redriven)).toBe(false);
    controller.abort();
    expect(await redriven).toMatchObject({ handled: 0 });
    expect(await inbox.find(stored.id)).toMatchObject({ state: 'received', attempts: 0 });
    await end(running.id);
    await handled;
  });

  test('a redrive whose event waits for a slot, which another one took, ends with its signal as well', async () => {
    const { handler, begun, end } = gated();
    const inbox = durable();
    const [running, stored] = [anEvent(), anEvent()];
    const takeDue: Inbox['takeDue'] = async (options) => {
      const taken = await inbox.takeDue(options);
      // It takes the slot that was free when the redrive asked.
      if (taken.length > 0) void receiver.accept(running, 'pull');
      await settled();
      return taken;
    };
    const { receiver } = setUp(handler, { inbox: { ...inbox, takeDue }, maxConcurrency: 1 });
    await inbox.record([stored], due);
    const controller = new AbortController();
    const redriven = receiver.redrive({ signal: controller.signal });
    await until(() => begun.length === 1);
    expect(await isSettled(redriven)).toBe(false);
    controller.abort();
    expect(await redriven).toMatchObject({ busy: 1 });
    expect(await inbox.find(stored.id)).toMatchObject({ state: 'received', attempts: 0 });
    await end(running.id);
    await receiver.close();
  });

  test('redrive and accept wait for a slot', async () => {
    const { handler, count } = counting();
    const { receiver, inbox } = setUp(handler, { inbox: durable(), maxConcurrency: 2 });
    await inbox.record(someEvents(30), due);
    const [counts, ...outcomes] = await Promise.all([
      receiver.redrive(),
      ...someEvents(30).map((event) => receiver.accept(event, 'pull')),
    ]);
    expect(counts).toMatchObject({ handled: 30 });
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['handled']));
    expect(count.most).toBe(2);
  });

  test('an overdue handler keeps its slot until it ends', async () => {
    const { handler, end } = gated();
    const [slow, next] = [anEvent(), anEvent()];
    const { receiver, codeOf } = setUp(
      (event, context) => (event.id === slow.id ? handler(event, context) : undefined),
      { maxConcurrency: 1, handlerTimeoutMs: 20, leaseMs: 60_000 },
    );
    expect(await codeOf(slow)).toBe('ERR_HANDLER_TIMEOUT');
    expect(await codeOf(next)).toBe('ERR_RECEIVER_BUSY');
    await end(slow.id);
    expect((await receiver.accept(next, 'pull')).kind).toBe('handled');
  });

  test('a type without a handler needs no slot', async () => {
    const { handler, begun, end } = gated();
    const { receiver } = setUp(handler, { maxConcurrency: 1 });
    const running = receiver.accept(anEvent(), 'pull');
    await until(() => begun.length === 1);
    expect((await receiver.accept(anEvent({ type: 'redeem.failed' }), 'pull')).kind).toBe('ignored');
    await end(begun[0]);
    await running;
  });
});

test('many passes that wait for a slot with one signal cause no warning of a leak', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on('warning', onWarning);
  const { handler, begun, end } = gated();
  const { receiver } = setUp(handler, { inbox: durable(), maxConcurrency: 1 });
  const event = anEvent();
  const running = receiver.handle(event, 'pull');
  await until(() => begun.length > 0);
  const { signal } = new AbortController();
  const passes = Array.from({ length: 12 }, () => receiver.redrive({ signal }));
  await settled();
  await end(event.id);
  await Promise.all([running, ...passes]);
  await settled();
  process.off('warning', onWarning);
  expect(warnings).toEqual([]);
});
