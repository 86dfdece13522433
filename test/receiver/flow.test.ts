import {
  createReceiver,
  type Inbox,
  type InboxOperations,
  memoryInbox,
  type Outcome,
  type ReceiverOptions,
  toWebhookResponse,
} from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred, delivery, secret } from './delivery.js';

/** The memory inbox, vouched durable, so that rules of durable inboxes show without a database. */
const durable = (): Inbox & InboxOperations => ({ ...memoryInbox(), durable: true });

type Handler = NonNullable<ReceiverOptions['handlers']['transfer.settled']>;

function setUp(handler: Handler, options: Partial<ReceiverOptions> = {}) {
  const inbox = durable();
  const outcomes: Outcome[] = [];
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const receiver = createReceiver({
    secret,
    inbox,
    handlers: { 'transfer.settled': handler },
    onOutcome: (outcome) => void outcomes.push(outcome),
    logger: { warn: log, error: log },
    ...options,
  });
  const kinds = () => outcomes.map(({ kind }) => kind);
  return { receiver, inbox, outcomes, kinds, lines };
}

/** Waits until it holds, on a busy machine, too. */
const until = (holds: () => boolean | Promise<boolean>) =>
  vi.waitUntil(holds, { timeout: 60_000, interval: 5 });

/** A handler that waits until the test ends it, and what has begun. */
function gated() {
  const begun: string[] = [];
  const gates = new Map<string, () => void>();
  const handler: Handler = (event) => {
    begun.push(event.id);
    const { promise, resolve } = deferred();
    gates.set(event.id, resolve);
    return promise;
  };
  const end = async (id: string) => {
    await until(() => gates.has(id));
    gates.get(id)?.();
  };
  return { handler, begun, end };
}

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

describe("acknowledge: 'recorded'", () => {
  test('a delivery is answered 202 while its handler has not begun, and onOutcome is called again with its end', async () => {
    const { handler, begun, end } = gated();
    const { receiver, inbox, kinds } = setUp(handler, { acknowledge: 'recorded' });
    const event = anEvent();
    const outcome = await receiver.receive(await delivery(event));
    expect(outcome.kind).toBe('queued');
    expect(toWebhookResponse(outcome).status).toBe(202);
    expect(begun).toEqual([]);
    expect((await receiver.inbox.claim(event, { leaseMs: 1, origin: 'push' })).state).toBe('leased');
    await end(event.id);
    await until(() => kinds().length === 2);
    expect(kinds()).toEqual(['queued', 'handled']);
    expect((await inbox.find(event.id))?.state ?? 'done').toBe('done');
  });

  test('a delivery of an event that is done, dead, running, failed or unknown is answered without running it', async () => {
    const { handler, begun, end } = gated();
    const inbox = durable();
    const { receiver } = setUp(handler, { acknowledge: 'recorded', inbox });
    const [done, dead, running, failed] = [anEvent(), anEvent(), anEvent(), anEvent()];
    const ignored = anEvent({ type: 'redeem.failed' });
    const claim = async (event: typeof done) => {
      const claimed = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
      if (claimed.state !== 'claimed') throw new Error(claimed.state);
      return claimed.lease;
    };
    await inbox.complete(await claim(done));
    await inbox.complete(await claim(ignored));
    await inbox.fail(await claim(dead), { retryAfterMs: null, error: 'no' });
    await claim(running);
    await inbox.fail(await claim(failed), { retryAfterMs: 60_000, error: 'no' });
    const kindOf = async (event: typeof done) => (await receiver.receive(await delivery(event))).kind;
    expect(await kindOf(done)).toBe('duplicate');
    expect(await kindOf(ignored)).toBe('ignored');
    expect(await kindOf(dead)).toBe('dead');
    expect(await kindOf(running)).toBe('queued');
    expect(await kindOf(failed)).toBe('queued');
    expect(await kindOf(anEvent({ type: 'mint.completed' }))).toBe('parked');
    const last = anEvent();
    await kindOf(last);
    await end(last.id);
    expect(begun).toEqual([last.id]);
  });

  test('a delivery and the end of its handler are reported with the origin push and which secret matched', async () => {
    const inbox = durable();
    const { receiver, outcomes } = setUp(() => undefined, {
      acknowledge: 'recorded',
      inbox,
      secret: ['other', secret],
      maxConcurrency: 1,
    });
    const [first, second] = [anEvent(), anEvent()];
    await receiver.receive(await delivery(first));
    await receiver.receive(await delivery(second));
    for (const { id } of [first, second]) expect(await inbox.find(id)).toMatchObject({ origin: 'push' });
    await until(() => outcomes.filter(({ kind }) => kind === 'handled').length === 2);
    const ofFirst = outcomes.filter(({ event }) => event?.id === first.id);
    expect(ofFirst).toMatchObject([
      { kind: 'queued', origin: 'push', secretIndex: 1 },
      { kind: 'handled', origin: 'push', secretIndex: 1 },
    ]);
  });

  test('a duplicate and a claim that fails leave their slot to the next delivery', async () => {
    const inbox = durable();
    let fails = false;
    const claim: Inbox['claim'] = (...args) =>
      fails ? Promise.reject(new Error('down')) : inbox.claim(...args);
    const { receiver, kinds } = setUp(() => undefined, {
      acknowledge: 'recorded',
      inbox: { ...inbox, claim },
      maxConcurrency: 1,
    });
    const done = anEvent();
    await receiver.receive(await delivery(done));
    await until(() => kinds().length === 2);
    expect((await receiver.receive(await delivery(done))).kind).toBe('duplicate');
    fails = true;
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('unavailable');
    fails = false;
    const last = anEvent();
    await receiver.receive(await delivery(last));
    await until(() => kinds().filter((kind) => kind === 'handled').length === 2);
  });

  test('a handler that fails after the answer is logged, and its event runs again when it is due', async () => {
    const inbox = durable();
    const { receiver, outcomes, lines } = setUp(() => Promise.reject(new Error('no')), {
      acknowledge: 'recorded',
      inbox,
    });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    await until(() => outcomes.length === 2);
    expect(outcomes[1]).toMatchObject({
      kind: 'failed',
      origin: 'push',
      error: { code: 'ERR_HANDLER_FAILED' },
    });
    expect(lines.join('\n')).toContain(event.id);
    expect((await inbox.find(event.id))?.state).toBe('failed');
  });

  test('with an inbox that fails, nothing is answered 202', async () => {
    const inbox = durable();
    const { receiver } = setUp(() => undefined, {
      acknowledge: 'recorded',
      inbox: { ...inbox, claim: () => Promise.reject(new Error('down')) },
    });
    const outcome = await receiver.receive(await delivery(anEvent()));
    expect([outcome.kind, outcome.error?.code]).toEqual(['unavailable', 'ERR_INBOX_FAILED']);
  });

  test('close waits for the handlers of deliveries that are answered', async () => {
    const { handler, end } = gated();
    const { receiver, kinds } = setUp(handler, { acknowledge: 'recorded' });
    const event = anEvent();
    await receiver.receive(await delivery(event));
    const closed = receiver.close();
    expect((await receiver.receive(await delivery(anEvent()))).error?.code).toBe('ERR_RECEIVER_CLOSED');
    await end(event.id);
    await closed;
    expect(kinds().at(-1)).toBe('handled');
  });

  test('a look for stored events that fails is logged once and tried again until they have run', async () => {
    const inbox = durable();
    let failures = 0;
    const takeDue: Inbox['takeDue'] = (options) => {
      if (failures === 2) return inbox.takeDue(options);
      failures += 1;
      return Promise.reject(new Error('down'));
    };
    const { receiver, kinds, lines } = setUp(() => undefined, {
      acknowledge: 'recorded',
      maxConcurrency: 1,
      inbox: { ...inbox, takeDue },
    });
    const requests = await Promise.all(Array.from({ length: 4 }, () => delivery(anEvent())));
    await Promise.all(requests.map((request) => receiver.receive(request)));
    await until(() => kinds().filter((kind) => kind === 'handled').length === 4);
    expect(lines.filter((line) => line.includes('stored events could not be run'))).toHaveLength(1);
  });

  test('close waits for the events that are being taken, and they run', async () => {
    const inbox = durable();
    const asked = deferred();
    const gate = deferred();
    const takeDue: Inbox['takeDue'] = async (options) => {
      asked.resolve();
      await gate.promise;
      return inbox.takeDue(options);
    };
    const { receiver, kinds } = setUp(() => undefined, { inbox: { ...inbox, takeDue } });
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    const redriven = receiver.redrive();
    await asked.promise;
    const closed = receiver.close();
    gate.resolve();
    await closed;
    expect(kinds()).toEqual(['handled']);
    expect(await redriven).toMatchObject({ handled: 1 });
  });

  test('an inbox that is not durable is refused: at once, or at the first delivery when a function gives it', async () => {
    const options = { secret, handlers: {}, acknowledge: 'recorded' } as const;
    expect(() => createReceiver(options)).toThrow(/`acknowledge: 'recorded'` needs a durable `inbox`/);
    expect(() => createReceiver({ ...options, inbox: memoryInbox() })).toThrow(/durable/);
    const { receiver } = setUp(() => undefined, { acknowledge: 'recorded', inbox: () => memoryInbox() });
    expect((await receiver.receive(await delivery(anEvent()))).error?.code).toBe('ERR_CONFIG_INVALID');
  });

  test('a queue is refused', () => {
    const queue = { enqueue: () => Promise.resolve() };
    const options = { secret, handlers: {}, inbox: durable(), queue, acknowledge: 'recorded' } as const;
    expect(() => createReceiver(options)).toThrow(
      /with a `queue`, a delivery is answered once it is enqueued/,
    );
  });
});

describe('orderingKey', () => {
  test('a second delivery of a key is answered 503 with Retry-After and stored, and other keys run', async () => {
    const { handler, begun, end } = gated();
    const inbox = durable();
    const { receiver } = setUp(handler, { inbox, orderingKey: byAccount, handlerTimeoutMs: 4_000 });
    const [first, second] = eventsOf('a', 2);
    const [other] = eventsOf('b', 1);
    if (!first || !second || !other) throw new Error('no events');
    const running = receiver.receive(await delivery(first));
    await until(() => begun.length === 1);
    const refused = await receiver.receive(await delivery(second));
    expect(refused.error?.code).toBe('ERR_KEY_BUSY');
    expect(toWebhookResponse(refused)).toMatchObject({ status: 503, headers: { 'retry-after': '4' } });
    expect(await inbox.find(second.id)).toMatchObject({ state: 'received', attempts: 0, key: 'a' });
    const parallel = receiver.receive(await delivery(other));
    await end(other.id);
    expect((await parallel).kind).toBe('handled');
    await end(first.id);
    expect((await running).kind).toBe('handled');
    const redriven = receiver.redrive();
    await end(second.id);
    expect(await redriven).toMatchObject({ handled: 1 });
  });

  test('redrive runs what waits for a key one after the other, the event that was created first before the others', async () => {
    const order: string[] = [];
    let running = 0;
    const inbox = durable();
    const { receiver } = setUp(
      async (event) => {
        running += 1;
        expect(running).toBe(1);
        await new Promise((resolve) => setImmediate(resolve));
        order.push(event.id);
        running -= 1;
      },
      { inbox, orderingKey: byAccount },
    );
    const events = eventsOf('a', 20);
    await receiver.record(events, { dueInMs: 0, origin: 'pull' });
    expect(await receiver.redrive()).toMatchObject({ handled: 20, busy: 0 });
    expect(order).toEqual(events.map(({ id }) => id).reverse());
  });

  test("under acknowledge: 'recorded' the events of a key are answered 202 and run one after the other, without a runner", async () => {
    const { handler, begun, end } = gated();
    const { receiver, kinds } = setUp(handler, { acknowledge: 'recorded', orderingKey: byAccount });
    const events = eventsOf('a', 4);
    const [first] = events;
    for (const event of events) {
      expect((await receiver.receive(await delivery(event))).kind).toBe('queued');
      await until(() => begun.length === 1);
    }
    await end(first?.id ?? '');
    for (const [index, event] of events.slice(1).reverse().entries()) {
      await end(event.id);
      expect(begun[index + 1]).toBe(event.id);
    }
    await until(() => kinds().filter((kind) => kind === 'handled').length === 4);
  });

  test.each<[string, (event: { readonly id: string }) => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('the key is broken');
      },
      /the key is broken/,
    ],
    ['returns an empty string', () => '', /1 to 512 bytes.* It returned an empty string\./],
    ['returns more than 512 bytes', () => 'é'.repeat(257), /It returned another string\./],
    ['returns a control character', () => 'a\u0000b', /It returned another string\./],
    ['returns a list', () => ['a'], /It returned a value of type object\./],
    ['returns a number', () => 7, /It returned a value of type number\./],
    ['is async', async () => 'a', /It returned a promise: it must not be async\./],
    ['returns another key at each call', () => crypto.randomUUID(), /another key than the one/],
  ])(
    'an orderingKey that %s fails the attempt, and the handler does not run',
    async (_, orderingKey, message) => {
      const handler = vi.fn();
      const inbox = durable();
      const { receiver } = setUp(handler, {
        inbox,
        orderingKey: orderingKey as ReceiverOptions['orderingKey'],
      });
      const event = anEvent();
      const outcome = await receiver.receive(await delivery(event));
      expect(outcome.error?.code).toBe('ERR_HANDLER_FAILED');
      expect(String(outcome.error?.cause)).toMatch(message);
      expect(handler).not.toHaveBeenCalled();
      expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', attempts: 1 });
    },
  );

  test.each([null, undefined])('an orderingKey that returns %s gives no key', async (none) => {
    const inbox = durable();
    const { receiver } = setUp(() => undefined, { inbox, orderingKey: () => none });
    const event = anEvent();
    expect((await receiver.receive(await delivery(event))).kind).toBe('handled');
    expect(await inbox.find(event.id)).toMatchObject({ key: null });
  });

  test('the events of a key run in turn after the app has removed or changed its orderingKey', async () => {
    for (const orderingKey of [undefined, () => 'new', () => null]) {
      const inbox = durable();
      const before = setUp(() => undefined, { inbox, orderingKey: byAccount });
      await before.receiver.record(eventsOf('a', 5), { dueInMs: 0, origin: 'pull' });
      const after = setUp(() => undefined, { inbox, orderingKey });
      expect(await after.receiver.redrive()).toMatchObject({ handled: 5 });
    }
  });

  test('an inbox that ignores keys fails every event that has one', async () => {
    const inbox = durable();
    const handler = vi.fn();
    const claim: Inbox['claim'] = (event, { key: _, ...options }) => inbox.claim(event, options);
    const { receiver } = setUp(handler, { inbox: { ...inbox, claim }, orderingKey: byAccount });
    const [event] = eventsOf('a', 1);
    const outcome = await receiver.receive(await delivery(event));
    expect(String(outcome.error?.cause)).toMatch(/the inbox must support keys/);
    expect(handler).not.toHaveBeenCalled();
  });

  test('it is said once when nothing runs an event that waits', async () => {
    vi.useFakeTimers();
    try {
      const { handler, begun } = gated();
      const { receiver, lines } = setUp(handler, { orderingKey: byAccount, leaseMs: 20_000 });
      const [first, second, third] = eventsOf('a', 3);
      void receiver.receive(await delivery(first));
      await until(() => begun.length === 1);
      await receiver.receive(await delivery(second));
      await receiver.receive(await delivery(third));
      await vi.advanceTimersByTimeAsync(200_000);
      expect(lines.filter((line) => line.includes('nothing runs it'))).toHaveLength(1);
    } finally {
      vi.useRealTimers();
    }
  });

  test('it is not said while another process runs the events of the key, one per lease', async () => {
    vi.useFakeTimers();
    try {
      const { handler, begun } = gated();
      const inbox = durable();
      const { receiver, lines } = setUp(handler, { inbox, orderingKey: byAccount, leaseMs: 20_000 });
      const [first, second] = eventsOf('a', 2);
      void receiver.receive(await delivery(first));
      await until(() => begun.length === 1);
      await receiver.receive(await delivery(second));
      for (let lease = 0; lease < 10; lease++) {
        const [other] = eventsOf('a', 1);
        await inbox.claim(other ?? anEvent(), { leaseMs: 20_000, origin: 'push', key: 'a' });
        await inbox.takeDue({ limit: 10, visibilityTimeoutMs: 20_000, types: [] });
        await vi.advanceTimersByTimeAsync(20_001);
      }
      expect(lines.filter((line) => line.includes('nothing runs it'))).toEqual([]);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('maxConcurrency', () => {
  test('above it a delivery is answered 503 with Retry-After before its body is read', async () => {
    const { handler, end } = gated();
    const inbox = durable();
    const { receiver } = setUp(handler, { inbox, maxConcurrency: 2 });
    const [one, two, three] = [anEvent(), anEvent(), anEvent()];
    const running = [one, two].map(async (event) => receiver.receive(await delivery(event)));
    await until(async () =>
      (await inbox.count()).some(({ state, count }) => state === 'leased' && count === 2),
    );
    const refused = await delivery(three);
    const outcome = await receiver.receive(refused);
    expect(outcome.error?.code).toBe('ERR_RECEIVER_BUSY');
    expect(toWebhookResponse(outcome).headers['retry-after']).toMatch(/^[1-5]$/);
    expect(refused.reads).toBe(0);
    expect(await inbox.find(three.id)).toBeUndefined();
    await end(one.id);
    await end(two.id);
    await Promise.all(running);
    const last = receiver.receive(await delivery(three));
    await end(three.id);
    expect((await last).kind).toBe('handled');
  });

  test('deliveries whose bodies arrive together take no more slots than there are', async () => {
    const { handler, begun, end } = gated();
    const { receiver } = setUp(handler, { maxConcurrency: 3 });
    const requests = await Promise.all(Array.from({ length: 20 }, () => delivery(anEvent())));
    const outcomes = requests.map((request) => receiver.receive(request));
    await until(() => begun.length === 3);
    for (const id of begun) await end(id);
    const kinds = (await Promise.all(outcomes)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'handled')).toHaveLength(3);
    expect(kinds.filter((kind) => kind === 'busy')).toHaveLength(17);
  });

  test("under acknowledge: 'recorded' what is above it is stored, answered 202, and runs as slots are free", async () => {
    let running = 0;
    let most = 0;
    const { receiver, kinds } = setUp(
      async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
      },
      { acknowledge: 'recorded', maxConcurrency: 3 },
    );
    const requests = await Promise.all(Array.from({ length: 100 }, () => delivery(anEvent())));
    const outcomes = await Promise.all(requests.map((request) => receiver.receive(request)));
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['queued']));
    await until(() => kinds().filter((kind) => kind === 'handled').length === 100);
    expect(most).toBe(3);
  });

  test('a receiver with a queue enqueues above it, too: enqueuing runs no handler', async () => {
    const { handler, begun, end } = gated();
    const { receiver } = setUp(handler, { maxConcurrency: 1, queue: { enqueue: async () => undefined } });
    const event = anEvent();
    const running = receiver.handle(event, 'queue');
    await until(() => begun.length === 1);
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('queued');
    await end(event.id);
    await running;
  });

  test('a redrive that waits for a slot ends when its signal aborts', async () => {
    const { handler, begun, end } = gated();
    const inbox = durable();
    const { receiver } = setUp(handler, { inbox, maxConcurrency: 1 });
    const [running, stored] = [anEvent(), anEvent()];
    const handled = receiver.receive(await delivery(running));
    await until(() => begun.length === 1);
    await inbox.record([stored], { dueInMs: 0, origin: 'pull' });
    const controller = new AbortController();
    const redriven = receiver.redrive({ signal: controller.signal });
    controller.abort();
    expect(await redriven).toMatchObject({ handled: 0 });
    await end(running.id);
    await handled;
  });

  test('redrive and accept wait for a slot', async () => {
    let running = 0;
    let most = 0;
    const inbox = durable();
    const { receiver } = setUp(
      async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
      },
      { inbox, maxConcurrency: 2 },
    );
    const [stored, pulled] = [0, 1].map(() => Array.from({ length: 30 }, () => anEvent()));
    await receiver.record(stored ?? [], { dueInMs: 0, origin: 'pull' });
    const [counts, ...outcomes] = await Promise.all([
      receiver.redrive(),
      ...(pulled ?? []).map((event) => receiver.accept(event, 'pull')),
    ]);
    expect(counts).toMatchObject({ handled: 30 });
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['handled']));
    expect(most).toBe(2);
  });

  test('a handler that outlives its time limit keeps its slot until it ends', async () => {
    const { handler, end } = gated();
    const [slow, next] = [anEvent(), anEvent()];
    const { receiver } = setUp(
      (event, context) => (event.id === slow.id ? handler(event, context) : undefined),
      {
        maxConcurrency: 1,
        handlerTimeoutMs: 20,
        leaseMs: 60_000,
      },
    );
    expect((await receiver.receive(await delivery(slow))).error?.code).toBe('ERR_HANDLER_TIMEOUT');
    expect((await receiver.receive(await delivery(next))).error?.code).toBe('ERR_RECEIVER_BUSY');
    await end(slow.id);
    expect((await receiver.accept(next, 'pull')).kind).toBe('handled');
  });

  test('a slot is free again after a duplicate, and after an inbox that failed', async () => {
    const inbox = durable();
    let fails = true;
    const claim: Inbox['claim'] = (...args) =>
      fails ? Promise.reject(new Error('down')) : inbox.claim(...args);
    const { receiver } = setUp(() => undefined, { inbox: { ...inbox, claim }, maxConcurrency: 1 });
    const event = anEvent();
    const kindOf = async () => (await receiver.receive(await delivery(event))).kind;
    expect(await kindOf()).toBe('unavailable');
    fails = false;
    expect(await kindOf()).toBe('handled');
    expect(await kindOf()).toBe('duplicate');
    expect(await kindOf()).toBe('duplicate');
  });
});

describe('run', () => {
  test('it runs what is due at once and at intervals, until its signal aborts', async () => {
    const inbox = durable();
    const controller = new AbortController();
    const { receiver, kinds } = setUp(() => undefined, { inbox });
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    const ended = receiver.run({ intervalMs: 1, signal: controller.signal });
    await until(() => kinds().length === 1);
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    await until(() => kinds().length === 2);
    controller.abort();
    await ended;
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    expect(kinds()).toEqual(['handled', 'handled']);
  });

  test('it takes no further event once its signal has aborted, and what was taken runs', async () => {
    const inbox = durable();
    const controller = new AbortController();
    const { receiver, kinds } = setUp(() => controller.abort(), { inbox });
    const events = Array.from({ length: 100 }, () => anEvent());
    await inbox.record(events, { dueInMs: 0, origin: 'pull' });
    await receiver.run({ signal: controller.signal });
    expect(new Set(kinds())).toEqual(new Set(['handled']));
    expect(kinds().length).toBeLessThan(100);
  });

  test('an event that waits for its key runs when the other has ended, long before the interval is over', async () => {
    const { handler, begun, end } = gated();
    const inbox = durable();
    const { receiver } = setUp(handler, { inbox, orderingKey: byAccount });
    const ended = receiver.run({ intervalMs: 3_600_000 });
    const [first, second] = eventsOf('a', 2);
    const running = receiver.receive(await delivery(first));
    await until(() => begun.length === 1);
    expect((await receiver.receive(await delivery(second))).error?.code).toBe('ERR_KEY_BUSY');
    await end(first?.id ?? '');
    await running;
    await end(second?.id ?? '');
    await receiver.close();
    await ended;
    expect((await inbox.find(second?.id ?? ''))?.state).toBe('done');
  });

  test('it looks again at once when the time for what it took is over and more can be due', async () => {
    const clock = { ms: 0 };
    const done: string[] = [];
    const { receiver, inbox } = setUp(
      ({ id }) => {
        done.push(id);
        clock.ms += 60_000;
      },
      { maxConcurrency: 1, leaseMs: 60_000, runtime: { elapsed: () => clock.ms } },
    );
    const events = eventsOf('a', 3);
    await inbox.record(events, { dueInMs: 0, origin: 'pull' });
    const ended = receiver.run({ intervalMs: 3_600_000 });
    await until(() => done.length === events.length);
    await receiver.close();
    await ended;
  });

  test('it says once that it cannot look for due events, and once that it can again', async () => {
    const inbox = durable();
    let looks = 0;
    let down = true;
    const takeDue: Inbox['takeDue'] = (options) => {
      looks += 1;
      return down ? Promise.reject(new Error('down')) : inbox.takeDue(options);
    };
    const { receiver, lines, kinds } = setUp(() => undefined, { inbox: { ...inbox, takeDue } });
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    const ended = receiver.run({ intervalMs: 1 });
    await until(() => looks > 5);
    down = false;
    await until(() => kinds().includes('handled') && lines.length > 1);
    await receiver.close();
    await ended;
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(/the runner cannot look for due events, and tries again/);
    expect(lines[1]).toMatch(/the runner can look for due events again/);
  });

  test('it says so again when it fails again', async () => {
    const inbox = durable();
    let looks = 0;
    // It fails, succeeds, fails and succeeds.
    const takeDue: Inbox['takeDue'] = (options) => {
      looks += 1;
      return looks % 2 === 1 ? Promise.reject(new Error('down')) : inbox.takeDue(options);
    };
    const { receiver, lines } = setUp(() => undefined, { inbox: { ...inbox, takeDue } });
    const ended = receiver.run({ intervalMs: 1 });
    await until(() => looks > 5);
    await receiver.close();
    await ended;
    const kinds = lines.map((line) => (/cannot look/.test(line) ? 'fails' : 'works'));
    expect(kinds.slice(0, 4)).toEqual(['fails', 'works', 'fails', 'works']);
  });

  test('what was due before it could listen runs once it listens, long before the interval is over', async () => {
    const inbox = durable();
    const listening = deferred<() => Promise<void>>();
    const takeDue = vi.spyOn(inbox, 'takeDue');
    const { receiver, kinds } = setUp(() => undefined, {
      inbox: { ...inbox, listen: () => listening.promise },
    });
    const ended = receiver.run({ intervalMs: 3_600_000 });
    await until(() => takeDue.mock.calls.length > 0);
    await new Promise((resolve) => setImmediate(resolve));
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    listening.resolve(async () => undefined);
    await until(() => kinds().length === 1);
    await receiver.close();
    await ended;
  });

  test('a message of the inbox wakes it; it listens again after its connection is lost, and stops at its end', async () => {
    const inbox = durable();
    let wake = () => {};
    let lose = (_: unknown) => {};
    const stop = vi.fn(async () => undefined);
    const listen = vi.fn<NonNullable<Inbox['listen']>>(async (onDue, onEnd) => {
      [wake, lose] = [onDue, onEnd];
      return stop;
    });
    const { receiver, lines, kinds } = setUp(() => undefined, { inbox: { ...inbox, listen } });
    const ended = receiver.run({ intervalMs: 3_600_000 });
    await until(() => listen.mock.calls.length === 1);
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    wake();
    await until(() => kinds().length === 1);
    lose(new Error('gone'));
    wake();
    await until(() => listen.mock.calls.length === 2);
    await receiver.close();
    await ended;
    expect(stop).toHaveBeenCalledOnce();
    expect(lines.join('\n')).toMatch(/lost its connection that listens[\s\S]*gone[\s\S]*can listen .* again/);
  });

  test('it listens when the function that gives the inbox has failed before', async () => {
    const listen = vi.fn<NonNullable<Inbox['listen']>>(async () => async () => undefined);
    let calls = 0;
    const { receiver } = setUp(() => undefined, {
      inbox: () => {
        calls += 1;
        if (calls < 3) throw new Error('not yet');
        return { ...durable(), listen };
      },
    });
    const ended = receiver.run({ intervalMs: 1 });
    await until(() => listen.mock.calls.length === 1);
    await receiver.close();
    await ended;
  });

  test('it looks for due events while the inbox has not found out yet whether it can listen', async () => {
    const inbox = durable();
    const listening = deferred<() => Promise<void>>();
    const { receiver, kinds } = setUp(() => undefined, {
      inbox: { ...inbox, listen: () => listening.promise },
    });
    await inbox.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    const ended = receiver.run({ intervalMs: 1 });
    await until(() => kinds().length === 1);
    const stop = vi.fn(async () => undefined);
    await receiver.close();
    await ended;
    expect(stop).not.toHaveBeenCalled();
    listening.resolve(stop);
    await until(() => stop.mock.calls.length === 1);
  });

  test('a second run of the same receiver, and wrong options, are refused', async () => {
    const { receiver } = setUp(() => undefined);
    const ended = receiver.run();
    await expect(receiver.run()).rejects.toThrow(/it runs already/);
    await receiver.close();
    await ended;
    await expect(receiver.run({ intervalMs: 0 })).rejects.toThrow(
      /receiver\.run: `intervalMs` must be an integer/,
    );
    await expect(receiver.run({ signal: {} as AbortSignal })).rejects.toThrow(
      /`signal` must be an AbortSignal/,
    );
    await receiver.run();
  });
});
