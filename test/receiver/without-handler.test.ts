import Database from 'libsql';
import {
  createReceiver,
  type Inbox,
  type InboxOperations,
  type InboxRecord,
  memoryInbox,
  type Outcome,
  PermanentError,
  type ReceiverOptions,
  type UnknownEvent,
} from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred, delivery, secret } from './delivery.js';

const HOUR_MS = 3_600_000;

/** An inbox whose clock the test sets. It is vouched durable, so that retry times hold. */
function clocked(): { clock: { now: number }; inbox: Inbox & InboxOperations } {
  const clock = { now: 1_000_000 };
  return { clock, inbox: { ...memoryInbox({ runtime: { now: () => clock.now } }), durable: true } };
}

/** A receiver of the inbox, its outcomes and its lines. */
function processOf(
  inbox: Inbox & Partial<InboxOperations>,
  handlers: ReceiverOptions['handlers'],
  options: Partial<ReceiverOptions> = {},
) {
  const outcomes: Outcome[] = [];
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const receiver = createReceiver({
    secret,
    inbox,
    handlers,
    onOutcome: (outcome) => void outcomes.push(outcome),
    logger: { warn: write, error: write },
    ...options,
  });
  return { receiver, outcomes, lines };
}

const fails = { 'transfer.settled': () => Promise.reject(new Error('no')) };
const WARNING = /This process has no handler for transfer\.settled/;

type Way = (receiver: ReturnType<typeof processOf>['receiver'], event: UnknownEvent) => Promise<unknown>;
const WAYS: readonly [string, Way][] = [
  ['a delivery', async (receiver, event) => receiver.receive(await delivery(event))],
  ['a poll', (receiver, event) => receiver.accept(event, 'pull')],
  ['a job', (receiver, event) => receiver.handle(event, 'queue')],
];

describe('in a process without a handler', () => {
  test.each(WAYS)('%s of a parked event is parked, and leaves it parked', async (_name, take) => {
    const { inbox } = clocked();
    const event = anEvent();
    await inbox.record([event], { dueInMs: null, origin: 'push' });
    const { receiver } = processOf(inbox, {});
    expect(await take(receiver, event)).toMatchObject({ kind: 'parked' });
    expect(await inbox.find(event.id)).toMatchObject({ state: 'parked', attempts: 0 });
  });

  test.each([undefined, 1])(
    'a delivery that is answered first leaves a parked event parked, with maxConcurrency %s',
    async (maxConcurrency) => {
      const { inbox } = clocked();
      const [event, other] = [anEvent(), anEvent({ type: 'redeem.failed' })];
      await inbox.record([event], { dueInMs: null, origin: 'push' });
      const never = () => new Promise<void>(() => undefined);
      const { receiver } = processOf(
        inbox,
        { 'redeem.failed': never },
        { acknowledge: 'recorded', maxConcurrency },
      );
      await receiver.receive(await delivery(other));
      expect((await receiver.receive(await delivery(event))).kind).toBe('parked');
      expect((await inbox.find(event.id))?.state).toBe('parked');
    },
  );

  test('redrive leaves a parked event parked, and a receiver that has a handler runs it', async () => {
    const { inbox } = clocked();
    const event = anEvent();
    await inbox.record([event], { dueInMs: null, origin: 'push' });
    const without = processOf(inbox, { 'redeem.failed': () => undefined });
    const nothing = await without.receiver.redrive();
    expect(Object.values(nothing).every((count) => count === 0)).toBe(true);
    expect((await inbox.find(event.id))?.state).toBe('parked');
    const handler = vi.fn();
    await processOf(inbox, { 'transfer.settled': handler }).receiver.redrive();
    expect(handler).toHaveBeenCalledOnce();
    expect((await inbox.find(event.id))?.state).toBe('done');
  });

  test('redrive of a receiver with a queue and no handlers enqueues parked events, for workers that have them', async () => {
    const { inbox } = clocked();
    await inbox.record([anEvent()], { dueInMs: null, origin: 'push' });
    const enqueue = vi.fn(async () => undefined);
    const { receiver } = processOf(inbox, {}, { queue: { enqueue } });
    expect(await receiver.redrive()).toMatchObject({ queued: 1 });
  });

  test.each<[string, ReceiverOptions['handlers'], Partial<ReceiverOptions>]>([
    ['without a queue and without handlers', {}, {}],
    [
      'with a queue and a handler for another type',
      { 'redeem.failed': () => undefined },
      { queue: { enqueue: async () => undefined } },
    ],
  ])('redrive of a receiver %s leaves parked events parked', async (_name, handlers, options) => {
    const { inbox } = clocked();
    const event = anEvent();
    await inbox.record([event], { dueInMs: null, origin: 'push' });
    await processOf(inbox, handlers, options).receiver.redrive();
    expect((await inbox.find(event.id))?.state).toBe('parked');
  });

  test('a new event is stored as it arrived, with its ordering key, and claimed after that', async () => {
    const { inbox } = clocked();
    const event = anEvent();
    const text = JSON.stringify(event, undefined, 1);
    const record = vi.spyOn(inbox, 'record');
    const find = vi.spyOn(inbox, 'find');
    const { receiver } = processOf(inbox, {}, { orderingKey: () => 'payout_7', leaseMs: 45_000 });
    expect((await receiver.receive(await delivery(text))).kind).toBe('ignored');
    expect(find).not.toHaveBeenCalled();
    expect(record).toHaveBeenCalledExactlyOnceWith([event], {
      dueInMs: 45_000,
      origin: 'push',
      json: [text],
      keys: ['payout_7'],
      traceparent: undefined,
    });
    expect((await receiver.handle(anEvent(), 'queue')).kind).toBe('ignored');
    expect(record.mock.lastCall?.[1].json).toBeUndefined();
  });

  test('a parked event stays parked in an inbox that cannot find', async () => {
    const { inbox } = clocked();
    const { find: _, ...blind } = inbox;
    const event = anEvent();
    await inbox.record([event], { dueInMs: null, origin: 'push' });
    expect((await processOf(blind, {}).receiver.handle(event, 'push')).kind).toBe('parked');
    expect((await inbox.find(event.id))?.state).toBe('parked');
  });

  test('a claim is valid for 5,007 ms, and for leaseMs in an inbox that cannot find, where it looks like any other', async () => {
    const { inbox } = clocked();
    const claim = vi.spyOn(inbox, 'claim');
    const { find: _, ...blind } = inbox;
    await processOf(inbox, {}, { leaseMs: 45_000 }).receiver.handle(anEvent(), 'push');
    await processOf(blind, {}, { leaseMs: 45_000 }).receiver.handle(anEvent(), 'push');
    expect(claim.mock.calls.map(([, { leaseMs }]) => leaseMs)).toEqual([5_007, 45_000]);
  });

  test('an event that another process completes between the record and the look is ignored', async () => {
    const { inbox } = clocked();
    const event = anEvent();
    const claimed = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    const find: InboxOperations['find'] = async (id) => {
      if (claimed.state === 'claimed') await inbox.complete(claimed.lease);
      return await inbox.find(id);
    };
    const { receiver } = processOf({ ...inbox, find }, {});
    expect((await receiver.handle(event, 'push')).kind).toBe('ignored');
  });

  test('an event is ignored when another process without a handler claims it between the look and the claim', async () => {
    const { clock, inbox } = clocked();
    const event = anEvent();
    const complete = () => Promise.reject(new Error('down'));
    const claim: Inbox['claim'] = async (claimed, options) => {
      await processOf({ ...inbox, complete }, {}).receiver.handle(event, 'push');
      clock.now += 10_000;
      return await inbox.claim(claimed, options);
    };
    const { receiver } = processOf({ ...inbox, claim }, {});
    expect((await receiver.handle(event, 'push')).kind).toBe('ignored');
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done', attempts: 2 });
  });

  const lapsed = (ms: number) => ({
    attempt: 1,
    origin: 'push' as const,
    startedAt: 1_000,
    endedAt: 1_000 + ms,
    result: 'lapsed' as const,
    error: null,
  });

  test.each<[string, Partial<InboxRecord>]>([
    ['an attempt, in an inbox that kept no history then', { attempts: 1 }],
    [
      'two attempts, one of them running, in an inbox that kept no history then',
      { state: 'leased', attempts: 2 },
    ],
    ['an error, in an inbox that kept no history then', { lastError: 'ERR_HANDLER_FAILED: no' }],
    ['a failed attempt that was short', { attempts: 1, history: [{ ...lapsed(0), result: 'failed' }] }],
    [
      'a lapsed attempt that was 2 ms shorter than one without a handler',
      { attempts: 1, history: [lapsed(5_005)] },
    ],
    [
      'a lapsed attempt that was 2 ms longer than one without a handler',
      { attempts: 1, history: [lapsed(5_009)] },
    ],
    [
      'a lapsed attempt with a handler before one without',
      { attempts: 2, history: [lapsed(60_000), lapsed(5_007)] },
    ],
  ])('an event is busy if its record shows %s', async (_name, shown) => {
    const { inbox } = clocked();
    const event = anEvent();
    await inbox.record([event], { dueInMs: 0, origin: 'push' });
    const find: InboxOperations['find'] = async (id) => {
      const found = await inbox.find(id);
      return found && { ...found, ...shown };
    };
    const { receiver } = processOf({ ...inbox, find }, {});
    expect((await receiver.handle(event, 'push')).kind).toBe('busy');
    expect((await inbox.find(event.id))?.state).toBe('received');
  });

  test('an event is unavailable when the inbox cannot record it', async () => {
    const { inbox } = clocked();
    const record = () => Promise.reject(new Error('down'));
    expect(await processOf({ ...inbox, record }, {}).receiver.handle(anEvent(), 'push')).toMatchObject({
      kind: 'unavailable',
      error: { code: 'ERR_INBOX_FAILED' },
    });
  });

  test('a delivery that is answered first says of a dead event that it is dead', async () => {
    const { inbox } = clocked();
    const event = anEvent();
    const givesUp = () => Promise.reject(new PermanentError('no'));
    await processOf(inbox, { 'transfer.settled': givesUp }).receiver.handle(event, 'push');
    const { receiver } = processOf(inbox, {}, { acknowledge: 'recorded' });
    expect((await receiver.receive(await delivery(event))).kind).toBe('dead');
  });

  test.each(WAYS)(
    '%s of an event that another process failed is busy, and that process runs it later',
    async (_name, take) => {
      const { clock, inbox } = clocked();
      const event = anEvent();
      await processOf(inbox, fails).receiver.handle(event, 'push');
      clock.now += HOUR_MS;
      const { receiver, lines } = processOf(inbox, {});
      expect(await take(receiver, event)).toMatchObject({
        kind: 'busy',
        error: { code: 'ERR_EVENT_BUSY', message: expect.stringMatching(WARNING), retryAfterMs: 5_000 },
      });
      expect(lines.join('\n')).toContain('Give all receivers of this inbox the same handlers');
      expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', attempts: 1 });
      const handler = vi.fn();
      expect(await processOf(inbox, { 'transfer.settled': handler }).receiver.redrive()).toMatchObject({
        handled: 1,
      });
    },
  );

  test('redrive does not complete events that another process failed, and says so once per type', async () => {
    const { clock, inbox } = clocked();
    const failing = processOf(inbox, fails);
    const events = [anEvent(), anEvent(), anEvent()];
    for (const event of events) await failing.receiver.handle(event, 'push');
    clock.now += HOUR_MS;
    const { receiver, lines } = processOf(inbox, {});
    expect(await receiver.redrive()).toMatchObject({ busy: 3, ignored: 0 });
    expect(lines.filter((line) => WARNING.test(line))).toHaveLength(1);
    clock.now += HOUR_MS;
    const handler = vi.fn();
    await processOf(inbox, { 'transfer.settled': handler }).receiver.redrive();
    expect(handler).toHaveBeenCalledTimes(3);
  });

  test('an event whose handler was cut off by the end of its process is not completed', async () => {
    const { clock, inbox } = clocked();
    const event = anEvent();
    await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    const { receiver } = processOf(inbox, {});
    expect((await receiver.handle(event, 'push')).kind).toBe('busy');
    clock.now += HOUR_MS;
    expect((await receiver.handle(event, 'push')).kind).toBe('busy');
    expect(await receiver.redrive()).toMatchObject({ busy: 1, ignored: 0 });
    expect(await inbox.find(event.id)).toMatchObject({ state: 'received', attempts: 1 });
  });

  test('an event that was requeued is not completed', async () => {
    const { inbox } = clocked();
    const event = anEvent();
    await processOf(inbox, fails).receiver.handle(event, 'push');
    await inbox.requeue(event.id);
    const { receiver } = processOf(inbox, {});
    expect((await receiver.handle(event, 'push')).kind).toBe('busy');
    expect((await inbox.find(event.id))?.state).toBe('received');
  });

  test('an event is not completed when a process that has the handler fails it between the look and the claim', async () => {
    const { clock, inbox } = clocked();
    const event = anEvent();
    const claim: Inbox['claim'] = async (claimed, options) => {
      await processOf(inbox, fails).receiver.handle(event, 'push');
      clock.now += HOUR_MS;
      return await inbox.claim(claimed, options);
    };
    const { receiver } = processOf({ ...inbox, claim }, {});
    expect(await receiver.handle(event, 'push')).toMatchObject({
      kind: 'busy',
      error: { code: 'ERR_EVENT_BUSY' },
    });
    clock.now += HOUR_MS;
    const handler = vi.fn();
    await processOf(inbox, { 'transfer.settled': handler }).receiver.redrive();
    expect(handler).toHaveBeenCalledOnce();
  });

  test.each(['busy', 'dead'] as const)(
    'an event that another process failed is %s in an inbox that cannot find, by the attempts that are left',
    async (kind) => {
      const { clock, inbox } = clocked();
      const { find: _, ...blind } = inbox;
      const event = anEvent();
      await processOf(inbox, fails).receiver.handle(event, 'push');
      clock.now += HOUR_MS;
      const { receiver } = processOf(blind, {}, { maxAttempts: kind === 'dead' ? 2 : 3 });
      expect((await receiver.handle(event, 'push')).kind).toBe(kind);
      const found = await inbox.find(event.id);
      expect(found?.state).toBe(kind === 'dead' ? 'dead' : 'failed');
      expect(found?.lastError).toMatch(
        /^ERR_EVENT_BUSY: This process has no handler for transfer\.settled, /,
      );
    },
  );

  test('an event that another process failed is unavailable when the inbox cannot be asked for it, or cannot be told', async () => {
    const { clock, inbox } = clocked();
    const event = anEvent();
    await processOf(inbox, fails).receiver.handle(event, 'push');
    clock.now += HOUR_MS;
    const down = () => Promise.reject(new Error('down'));
    const { find: _, ...blind } = inbox;
    for (const broken of [
      { ...inbox, find: down },
      { ...blind, fail: down },
    ]) {
      expect(await processOf(broken, {}).receiver.handle(event, 'push')).toMatchObject({
        kind: 'unavailable',
        error: { code: 'ERR_INBOX_FAILED' },
      });
    }
  });

  test('a new event is ignored in an inbox that cannot find', async () => {
    const { find: _, ...blind } = memoryInbox();
    expect((await processOf(blind, {}).receiver.handle(anEvent(), 'push')).kind).toBe('ignored');
  });

  test.each<[string, (runtime: { now: () => number }) => Inbox & InboxOperations]>([
    ['the memory inbox', (runtime) => memoryInbox({ runtime })],
    ['a SQLite inbox', (runtime) => sqliteInbox(new Database(':memory:'), { runtime })],
  ])(
    'an event that could not be marked is ignored at a delivery after its lease, in %s',
    async (_name, make) => {
      const clock = { now: 1_000_000 };
      const inbox = make({ now: () => clock.now });
      const event = anEvent({ type: 'redeem.failed' });
      const complete = () => Promise.reject(new Error('down'));
      const down = processOf({ ...inbox, complete }, {});
      expect((await down.receiver.handle(event, 'push')).kind).toBe('unavailable');
      const { receiver } = processOf(inbox, {});
      expect(await receiver.handle(event, 'push')).toMatchObject({ error: { code: 'ERR_EVENT_BUSY' } });
      clock.now += 6_000;
      expect((await receiver.handle(event, 'push')).kind).toBe('ignored');
      expect((await inbox.find(event.id))?.state).toBe('done');
    },
  );

  test('an event that could not be marked is ignored by redrive', async () => {
    const { clock, inbox } = clocked();
    const event = anEvent();
    const complete = () => Promise.reject(new Error('down'));
    for (const _ of [1, 2]) {
      await processOf({ ...inbox, complete }, {}).receiver.handle(event, 'push');
      clock.now += HOUR_MS;
    }
    const { receiver } = processOf(inbox, {}, { maxAttempts: 1 });
    expect(await receiver.redrive()).toMatchObject({ ignored: 1, busy: 0, dead: 0 });
  });

  test('a new event is ignored when what is due is taken before it is marked, as by a runner while the inbox is slow', async () => {
    const { clock, inbox } = clocked();
    const runner = processOf(inbox, {});
    const complete: Inbox['complete'] = async (lease) => {
      clock.now += 1_000;
      await runner.receiver.redrive();
      return await inbox.complete(lease);
    };
    const { receiver } = processOf({ ...inbox, complete }, {});
    expect(await receiver.receive(await delivery(anEvent()))).toMatchObject({ kind: 'ignored', attempt: 1 });
    expect(runner.outcomes).toEqual([]);
  });

  test('two deliveries of a new event at the same time complete it, and neither is told of a lost lease', async () => {
    const { clock, inbox } = clocked();
    const event = anEvent();
    const complete: Inbox['complete'] = async (lease) => {
      clock.now += 10_000;
      if (lease.attempt === 1) await processOf(inbox, {}).receiver.handle(event, 'push');
      return await inbox.complete(lease);
    };
    const { receiver } = processOf({ ...inbox, complete }, {});
    expect(await receiver.handle(event, 'push')).toMatchObject({
      error: {
        code: 'ERR_EVENT_BUSY',
        message: 'Another process or delivery has claimed this event.',
        retryAfterMs: 1_000,
      },
    });
    expect((await inbox.find(event.id))?.state).toBe('done');
    expect((await receiver.handle(event, 'push')).kind).toBe('ignored');
  });
});

test('a delivery that is answered first queues a parked event that has a handler here, while no slot is free', async () => {
  const { inbox } = clocked();
  const [event, other] = [anEvent(), anEvent({ type: 'redeem.failed' })];
  await inbox.record([event], { dueInMs: null, origin: 'push' });
  const held = deferred();
  const handlers = { 'redeem.failed': () => held.promise, 'transfer.settled': () => undefined };
  const { receiver } = processOf(inbox, handlers, { acknowledge: 'recorded', maxConcurrency: 1 });
  await receiver.receive(await delivery(other));
  expect((await receiver.receive(await delivery(event))).kind).toBe('queued');
  held.resolve();
  await receiver.close();
});
