import {
  createReceiver,
  type Inbox,
  type InboxOperations,
  memoryInbox,
  type Queue,
  type UnknownEvent,
} from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred, delivery, secret } from './delivery.js';

const HOUR_MS = 3_600_000;
const pull = 'pull';

function clocked() {
  const clock = { now: 1_000_000 };
  return { clock, inbox: memoryInbox({ runtime: { now: () => clock.now } }) };
}

describe('redrive', () => {
  test('redrive runs received events, failed events that are due, and events whose lease lapsed, each once', async () => {
    const { clock, inbox } = clocked();
    const ran: [string, string][] = [];
    let failing = true;
    const receiver = createReceiver({
      secret,
      inbox,
      onOutcome: () => undefined,
      handlers: {
        'transfer.settled': async (event, { origin }) => {
          ran.push([event.id, origin]);
          if (failing) throw new Error('no');
        },
      },
    });
    const [received, failed, lapsed] = [anEvent(), anEvent(), anEvent()];
    await inbox.record([received], { dueInMs: 0, origin: 'pull' });
    await receiver.accept(failed, pull);
    await inbox.claim(lapsed, { leaseMs: 10, origin: 'push' });
    clock.now += HOUR_MS;
    failing = false;
    ran.length = 0;
    expect(await receiver.redrive()).toMatchObject({ handled: 3, failed: 0, busy: 0 });
    expect(new Set(ran.map(([id]) => id))).toEqual(new Set([received.id, failed.id, lapsed.id]));
    expect(new Set(ran.map(([, origin]) => origin))).toEqual(new Set(['redrive']));
    expect(await receiver.redrive()).toMatchObject({ handled: 0, duplicate: 0 });
  });

  test('redrive does not run events that are not due', async () => {
    const { inbox } = clocked();
    const receiver = createReceiver({
      secret,
      inbox,
      onOutcome: () => undefined,
      handlers: { 'transfer.settled': () => Promise.reject(new Error('no')) },
    });
    await receiver.accept(anEvent(), pull);
    expect(Object.values(await receiver.redrive()).reduce((sum, count) => sum + count)).toBe(0);
  });

  test('redrive runs a parked event when its type is known', async () => {
    const handler = vi.fn();
    const inbox = memoryInbox();
    const receiver = createReceiver({ secret, inbox, handlers: { 'redeem.completed': handler } });
    const unknown = anEvent({ type: 'mint.completed' });
    const event = anEvent({ type: 'redeem.completed' });
    // What a release that did not know redeem.completed would have left behind.
    await inbox.record([unknown, event], { dueInMs: null, origin: 'push' });
    expect(await receiver.redrive()).toMatchObject({ handled: 1, parked: 0 });
    expect(handler).toHaveBeenCalledOnce();
    expect((await inbox.find(unknown.id))?.state).toBe('parked');
  });

  test('redrive runs more than one batch, and stops when its signal aborts', async () => {
    const inbox = memoryInbox();
    const controller = new AbortController();
    const receiver = createReceiver({
      secret,
      inbox,
      handlers: { 'transfer.settled': () => controller.abort() },
    });
    await inbox.record(
      Array.from({ length: 100 }, () => anEvent()),
      { dueInMs: 0, origin: 'pull' },
    );
    const first = await receiver.redrive({ signal: controller.signal });
    expect(first.handled).toBeGreaterThan(0);
    expect(first.handled).toBeLessThan(100);
    const rest = await receiver.redrive();
    // The first batch is hidden from nobody: it is done. The rest is all there.
    expect(first.handled + rest.handled).toBe(100);
  });

  test('redrive reports each outcome with its event and the origin redrive', async () => {
    const inbox = { ...memoryInbox(), durable: true };
    const receiver = createReceiver({ secret, inbox, handlers: { 'transfer.settled': () => undefined } });
    const event = anEvent();
    await inbox.record([event], { dueInMs: 0, origin: 'pull' });
    const onOutcome = vi.fn();
    await receiver.redrive({ onOutcome });
    expect(onOutcome.mock.calls).toEqual([
      [expect.objectContaining({ kind: 'handled', origin: 'redrive', event })],
    ]);
    expect(await receiver.accept(event, pull)).toEqual({ kind: 'duplicate', origin: 'pull', event });
    expect(await receiver.handle(event, 'queue')).toEqual({ kind: 'duplicate', origin: 'queue', event });
  });

  test.each([
    ['another process runs', 'leased', 'ERR_EVENT_BUSY', false],
    ['waits for its key', 'waiting', 'ERR_KEY_BUSY', false],
    ['is not due any more', 'failed', 'ERR_EVENT_NOT_DUE', true],
  ] as const)(
    'an event that redrive takes and that %s is busy; it is logged where that tells somebody something',
    async (_name, state, code, isLogged) => {
      const inbox = memoryInbox();
      const lines: string[] = [];
      const log = (line: string) => void lines.push(line);
      const receiver = createReceiver({
        secret,
        inbox: { ...inbox, claim: async () => ({ state, retryAfterMs: 1_000 }) },
        handlers: {},
        logger: { warn: log, error: log },
      });
      const event = anEvent();
      await inbox.record([event], { dueInMs: 0, origin: 'pull' });
      expect(await receiver.redrive()).toMatchObject({ busy: 1 });
      expect(lines).toHaveLength(isLogged ? 1 : 0);
      expect((await receiver.accept(event, pull)).error?.code).toBe(code);
      expect(lines).toHaveLength(isLogged ? 2 : 1);
    },
  );

  test('redrive asks for 16 events first, and then for 8 or more at a time', async () => {
    const inbox = memoryInbox();
    await inbox.record(
      Array.from({ length: 100 }, () => anEvent()),
      { dueInMs: 0, origin: 'pull' },
    );
    const limits: number[] = [];
    const receiver = createReceiver({
      secret,
      inbox: {
        ...inbox,
        takeDue: (options) => {
          limits.push(options.limit);
          return inbox.takeDue(options);
        },
      },
      handlers: { 'transfer.settled': () => new Promise((resolve) => void setImmediate(resolve)) },
      maxConcurrency: 50,
    });
    expect(await receiver.redrive()).toMatchObject({ handled: 100 });
    expect(limits[0]).toBe(16);
    expect(Math.min(...limits)).toBeGreaterThanOrEqual(8);
    expect(Math.max(...limits)).toBe(16);
  });

  test('redrive takes further events while those that it took run, also from an inbox that gives one at a time', async () => {
    const inbox = memoryInbox();
    const all = deferred();
    let begun = 0;
    const receiver = createReceiver({
      secret,
      inbox: { ...inbox, takeDue: (options) => inbox.takeDue({ ...options, limit: 1 }) },
      handlers: {
        'transfer.settled': async () => {
          begun += 1;
          if (begun === 3) all.resolve();
          await all.promise;
        },
      },
    });
    await inbox.record([anEvent(), anEvent(), anEvent()], { dueInMs: 0, origin: 'pull' });
    expect(await receiver.redrive()).toMatchObject({ handled: 3 });
  });

  test('recording asks the inbox once for events of known types, and not for an empty page', async () => {
    const inbox = memoryInbox();
    const record = vi.fn(inbox.record);
    const receiver = createReceiver({ secret, inbox: { ...inbox, record }, handlers: {} });
    expect(await receiver.record([], { dueInMs: 0, origin: 'pull' })).toEqual([]);
    expect(record).not.toHaveBeenCalled();
    const known = anEvent();
    expect(await receiver.record([known], { dueInMs: 0, origin: 'pull' })).toEqual(['new']);
    expect(record).toHaveBeenCalledOnce();
    const page = [anEvent({ type: 'mint.completed' }), known];
    expect(await receiver.record(page, { dueInMs: 0, origin: 'pull' })).toEqual(['new', 'received']);
  });

  test.each(['push', 'pull', 'queue', 'redrive'] as const)(
    'recording stores the origin %s and the JSON',
    async (origin) => {
      const inbox = memoryInbox();
      const receiver = createReceiver({ secret, inbox, handlers: { 'transfer.settled': () => undefined } });
      const event = anEvent();
      const json = [`${JSON.stringify(event)} `];
      expect(await receiver.record([event], { dueInMs: 0, origin, json })).toEqual(['new']);
      expect(await inbox.find(event.id)).toMatchObject({ origin, state: 'received' });
      const [due] = await inbox.takeDue({ limit: 1, visibilityTimeoutMs: HOUR_MS, types: [] });
      expect(due?.json).toBe(json[0]);
    },
  );

  test('recording rejects when the inbox fails', async () => {
    const inbox = { ...memoryInbox(), record: () => Promise.reject(new Error('down')) };
    const receiver = createReceiver({ secret, inbox, handlers: {} });
    const recorded = receiver.record([anEvent()], { dueInMs: 0, origin: 'pull' });
    await expect(recorded).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED' });
  });

  test('redrive rejects when the inbox cannot be asked', async () => {
    const inbox = { ...memoryInbox(), takeDue: () => Promise.reject(new Error('down')) };
    const receiver = createReceiver({ secret, inbox, handlers: {} });
    await expect(receiver.redrive()).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED' });
  });
});

describe('with a queue', () => {
  function setUp(enqueue: Queue['enqueue']) {
    const inbox: Inbox & InboxOperations = { ...memoryInbox(), durable: true };
    const handler = vi.fn();
    const receiver = createReceiver({
      secret,
      inbox,
      queue: { enqueue },
      handlers: { 'transfer.settled': handler },
      onOutcome: () => undefined,
    });
    return { inbox, handler, receiver };
  }

  test('with a queue, a delivery is recorded and enqueued, and the worker handles it', async () => {
    const jobs: UnknownEvent[] = [];
    const { inbox, handler, receiver } = setUp(async (event) => void jobs.push(event));
    const event = anEvent();
    expect(await receiver.receive(await delivery(event))).toMatchObject({ kind: 'queued' });
    expect(handler).not.toHaveBeenCalled();
    expect(await inbox.find(event.id)).toMatchObject({ state: 'received' });
    expect(jobs).toEqual([event]);
    expect(await receiver.handle(event, 'queue')).toMatchObject({
      kind: 'handled',
      origin: 'queue',
    });
    expect(await receiver.receive(await delivery(event))).toMatchObject({ kind: 'duplicate' });
    expect(jobs.length).toBe(1);
  });

  test('with a queue, an event of a type without a handler is enqueued, because the worker can have a handler', async () => {
    const jobs: UnknownEvent[] = [];
    const { receiver } = setUp(async (event) => void jobs.push(event));
    await receiver.receive(await delivery(anEvent({ type: 'redeem.failed' })));
    expect(jobs.length).toBe(1);
  });

  test('with a queue, an event that is dead is answered dead and not enqueued', async () => {
    const enqueue = vi.fn(async () => undefined);
    const { inbox, receiver } = setUp(enqueue);
    const event = anEvent();
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    if (claim.state !== 'claimed') throw new Error(claim.state);
    await inbox.fail(claim.lease, { retryAfterMs: null, error: 'no' });
    expect(await receiver.receive(await delivery(event))).toMatchObject({ kind: 'dead' });
    expect(await receiver.accept(event, pull)).toMatchObject({ kind: 'dead' });
    expect(enqueue).not.toHaveBeenCalled();
  });

  test('with a queue, an event is due again after leaseMs if this process dies before it is enqueued', async () => {
    const { clock, inbox: memory } = clocked();
    const receiver = createReceiver({
      secret,
      inbox: { ...memory, durable: true },
      queue: { enqueue: async () => undefined },
      handlers: {},
      leaseMs: 90_000,
    });
    const event = anEvent();
    await receiver.accept(event, pull);
    expect((await memory.find(event.id))?.dueAt).toBe(clock.now + 90_000);
  });

  test('with a queue that is down, a delivery is unavailable, and redrive enqueues the event later', async () => {
    let up = false;
    const jobs: UnknownEvent[] = [];
    const { clock, inbox: memory } = clocked();
    const receiver = createReceiver({
      secret,
      inbox: { ...memory, durable: true },
      queue: { enqueue: async (event) => (up ? void jobs.push(event) : Promise.reject(new Error('down'))) },
      handlers: {},
      onOutcome: () => undefined,
    });
    const event = anEvent();
    expect(await receiver.accept(event, pull)).toMatchObject({
      kind: 'unavailable',
      error: { code: 'ERR_QUEUE_FAILED' },
    });
    up = true;
    expect((await receiver.redrive()).queued).toBe(0);
    clock.now += HOUR_MS;
    expect((await receiver.redrive()).queued).toBe(1);
    expect(jobs).toEqual([event]);
  });

  test('redrive ends when the queue is slower than leases lapse', async () => {
    const inbox = memoryInbox();
    await inbox.record(
      Array.from({ length: 64 }, () => anEvent()),
      { dueInMs: 0, origin: 'pull' },
    );
    const receiver = createReceiver({
      secret,
      inbox: { ...inbox, durable: true },
      // Four batches take longer than the first one's leases: without an end they would come round and round.
      queue: { enqueue: () => new Promise((resolve) => setTimeout(resolve, 15)) },
      handlers: {},
      leaseMs: 30,
      handlerTimeoutMs: 10,
    });
    const { queued } = await receiver.redrive();
    expect(queued).toBeGreaterThanOrEqual(16);
    expect(queued).toBeLessThanOrEqual(64);
  });
});
