/** `receiver.redrive()`: one pass over what is due, and what it shares with queues. */
import { getEventListeners } from 'node:events';
import type { Inbox, Queue, UnknownEvent } from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred, delivery } from './delivery.js';
import {
  counting,
  down,
  durable,
  HOUR_MS,
  isSettled,
  leaseOf,
  manualRuntime,
  setUp,
  someEvents,
} from './set-up.js';

const due = { dueInMs: 0, origin: 'pull' } as const;

describe('redrive', () => {
  test('runs received events, failed events that are due, lapsed leases and parked events, each once', async () => {
    const clock = { now: 0 };
    const ran: (readonly [string, string])[] = [];
    let isFailing = true;
    const { receiver, inbox } = setUp(
      async ({ id }, { origin }) => {
        ran.push([id, origin]);
        if (isFailing) throw new Error('no');
      },
      { inbox: durable(clock) },
    );
    const events = someEvents(4);
    const [received, failed, lapsed, parked] = events as [
      UnknownEvent,
      UnknownEvent,
      UnknownEvent,
      UnknownEvent,
    ];
    await inbox.record([received], due);
    await inbox.record([parked], { dueInMs: null, origin: 'push' });
    await receiver.accept(failed, 'pull');
    await leaseOf(inbox, lapsed, { leaseMs: 10 });
    clock.now += HOUR_MS;
    isFailing = false;
    ran.length = 0;
    expect(await receiver.redrive()).toMatchObject({ handled: 4, failed: 0, busy: 0 });
    expect(ran.sort()).toEqual(events.map(({ id }) => [id, 'redrive']).sort());
    expect(await receiver.redrive()).toMatchObject({ handled: 0, duplicate: 0 });
  });

  test('names an event whose stored text lacks a field, and runs the others', async () => {
    const { receiver, inbox, handled, lines } = setUp(undefined, { inbox: durable() });
    const [broken, ...others] = someEvents(3) as [UnknownEvent, ...UnknownEvent[]];
    await inbox.record([broken], { ...due, dueInMs: -HOUR_MS, json: [JSON.stringify({ id: broken.id })] });
    await inbox.record(others, due);
    await receiver.redrive();
    expect(handled()).toBe(2);
    expect(lines).toEqual([expect.stringContaining(`${broken.id} cannot run`)]);
  });

  test.each([
    [
      'throws',
      () => {
        throw new Error('no');
      },
    ],
    ['rejects', () => down()],
  ])('goes on when its onOutcome %s', async (_, onOutcome) => {
    const { receiver, inbox, handled, lines } = setUp(undefined, { inbox: durable() });
    await inbox.record(someEvents(2), due);
    expect(await receiver.redrive({ onOutcome })).toMatchObject({ handled: 2 });
    expect(handled()).toBe(2);
    expect(lines).toEqual(Array(2).fill(expect.stringContaining('onOutcome')));
  });

  test('runs every other due event when more events than it takes at a time cannot be read, and names each once', async () => {
    const { receiver, inbox, handled, lines } = setUp(undefined, { inbox: durable() });
    const unreadable = someEvents(40);
    await inbox.record(unreadable, { ...due, dueInMs: -HOUR_MS, json: unreadable.map(() => '{"id":') });
    await inbox.record(someEvents(3), due);
    await receiver.redrive();
    expect(handled()).toBe(3);
    const named = unreadable.map(({ id }) => lines.filter((line) => line.includes(id)));
    expect(named).toEqual(unreadable.map(({ id }) => [expect.stringContaining(`${id} cannot run`)]));
    await receiver.redrive();
    expect(lines).toHaveLength(40);
  });

  test('takes no further event once its signal aborts, and leaves the others due', async () => {
    const controller = new AbortController();
    const { receiver, inbox } = setUp(() => controller.abort());
    await inbox.record(someEvents(100), due);
    const { handled } = await receiver.redrive({ signal: controller.signal });
    expect(handled).toBeGreaterThan(0);
    expect(handled + (await receiver.redrive()).handled).toBe(100);
  });

  test('reports each outcome with its event and its origin', async () => {
    const { receiver, inbox, outcomes } = setUp();
    const event = anEvent();
    await inbox.record([event], due);
    const onOutcome = vi.fn();
    await receiver.redrive({ onOutcome });
    expect(outcomes).toMatchObject([{ kind: 'handled', origin: 'redrive', event }]);
    expect(onOutcome.mock.calls).toEqual([outcomes]);
  });

  test.each([
    ['runs in another process', 'leased', 'ERR_EVENT_BUSY', 1, 0],
    ['waits for its key', 'waiting', 'ERR_KEY_BUSY', 0, 0],
    ['is not due any more', 'failed', 'ERR_EVENT_NOT_DUE', 1, 1],
  ] as const)(
    'a taken event that %s is counted and logged only if that is news',
    async (_, state, code, busy, count) => {
      const inbox = durable();
      const claim = async () => ({ state, retryAfterMs: 1_000 });
      const { receiver, lines, codeOf } = setUp(undefined, { inbox: { ...inbox, claim } });
      const event = anEvent();
      await inbox.record([event], due);
      expect(await receiver.redrive()).toMatchObject({ busy });
      const about = () => lines.filter((line) => line.includes(code));
      expect(about()).toHaveLength(count);
      expect(await codeOf(event)).toBe(code);
      expect(about()).toHaveLength(count + 1);
    },
  );

  test('runs at most 16 events at the same time, and asks for several at a time', async () => {
    const { handler, count } = counting();
    const inbox = durable();
    const limits: number[] = [];
    const takeDue: Inbox['takeDue'] = (options) => {
      limits.push(options.limit);
      return inbox.takeDue(options);
    };
    const { receiver } = setUp(handler, { inbox: { ...inbox, takeDue }, maxConcurrency: 50 });
    await inbox.record(someEvents(100), due);
    expect(await receiver.redrive()).toMatchObject({ handled: 100 });
    expect([count.most, limits[0], Math.max(...limits)]).toEqual([16, 16, 16]);
    expect(Math.min(...limits)).toBeGreaterThanOrEqual(8);
  });

  test('takes further events while others run, even from an inbox that gives one at a time', async () => {
    const inbox = durable();
    const all = deferred();
    let begun = 0;
    const { receiver } = setUp(
      async () => {
        begun += 1;
        if (begun === 3) all.resolve();
        await all.promise;
      },
      { inbox: { ...inbox, takeDue: (options) => inbox.takeDue({ ...options, limit: 1 }) } },
    );
    await inbox.record(someEvents(3), due);
    expect(await receiver.redrive()).toMatchObject({ handled: 3 });
  });

  test('rejects when the inbox cannot be asked, and leaves no listener on its signal', async () => {
    const inbox = durable();
    let isDown = true;
    const takeDue: Inbox['takeDue'] = (options) => (isDown ? down() : inbox.takeDue(options));
    const { receiver } = setUp(undefined, { inbox: { ...inbox, takeDue } });
    const { signal } = new AbortController();
    await expect(receiver.redrive({ signal })).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED' });
    isDown = false;
    await inbox.record([anEvent()], due);
    expect(await receiver.redrive({ signal })).toMatchObject({ handled: 1 });
    await receiver.close();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('is waited for by close, and events that it was taking run', async () => {
    const inbox = durable();
    const asked = deferred();
    const gate = deferred();
    const takeDue: Inbox['takeDue'] = async (options) => {
      asked.resolve();
      await gate.promise;
      return inbox.takeDue(options);
    };
    const { receiver, codes } = setUp(undefined, { inbox: { ...inbox, takeDue } });
    await inbox.record([anEvent()], due);
    const redriven = receiver.redrive();
    await asked.promise;
    const closed = receiver.close();
    expect(await isSettled(closed)).toBe(false);
    gate.resolve();
    await closed;
    expect(codes()).toEqual(['handled']);
    expect(await redriven).toMatchObject({ handled: 1 });
    await inbox.record([anEvent()], due);
    expect(await receiver.redrive()).toMatchObject({ handled: 0 });
  });
});

describe('with a queue', () => {
  function withQueue(enqueue: Queue['enqueue'], clock = { now: 0 }) {
    const handler = vi.fn();
    const parts = setUp(handler, { inbox: durable(clock), queue: { enqueue }, leaseMs: 90_000 });
    return { ...parts, handler, clock };
  }

  test('a delivery is recorded and enqueued, and the worker handles it', async () => {
    const jobs: UnknownEvent[] = [];
    const { inbox, handler, receiver, codeOf, clock } = withQueue(async (event) => void jobs.push(event));
    const event = anEvent();
    expect(await codeOf(event)).toBe('queued');
    expect(handler).not.toHaveBeenCalled();
    // It is enqueued again if this process dies before it is in the queue.
    expect(await inbox.find(event.id)).toMatchObject({ state: 'received', dueAt: clock.now + 90_000 });
    expect(jobs).toEqual([event]);
    expect(await receiver.handle(event, 'queue')).toMatchObject({ kind: 'handled', origin: 'queue' });
    expect(await codeOf(event)).toBe('duplicate');
    expect(jobs).toHaveLength(1);
  });

  test('an event without a handler is enqueued, a dead one is not, and an unknown one is parked', async () => {
    const jobs: string[] = [];
    const { inbox, codeOf } = withQueue(async ({ id }) => void jobs.push(id));
    const [other, dead] = [anEvent({ type: 'redeem.failed' }), anEvent()];
    await inbox.fail(await leaseOf(inbox, dead), { retryAfterMs: null, error: 'no' });
    expect(await codeOf(other)).toBe('queued');
    expect(await codeOf(dead)).toBe('dead');
    expect(await codeOf(anEvent({ type: 'mint.completed' }))).toBe('parked');
    expect(jobs).toEqual([other.id]);
  });

  test('that is down, a delivery is unavailable, and redrive enqueues its event later', async () => {
    let isUp = false;
    const jobs: UnknownEvent[] = [];
    const { clock, receiver, codeOf } = withQueue(async (event) => (isUp ? void jobs.push(event) : down()));
    const event = anEvent();
    expect(await codeOf(event)).toBe('ERR_QUEUE_FAILED');
    isUp = true;
    expect(await receiver.redrive()).toMatchObject({ queued: 0 });
    clock.now += HOUR_MS;
    expect(await receiver.redrive()).toMatchObject({ queued: 1 });
    expect(jobs).toEqual([event]);
  });

  test('a job is refused by an inbox that is not durable: its event would run again after a restart', async () => {
    const { receiver, lines } = setUp();
    for (const method of ['accept', 'handle'] as const) {
      const { kind, error } = await receiver[method](anEvent(), 'queue');
      expect([kind, error?.code]).toEqual(['failed', 'ERR_CONFIG_INVALID']);
    }
    expect(lines[0]).toMatch(/a `queue` needs a durable `inbox`/);
  });

  test('that takes longer than leases last, redrive ends', async () => {
    const { runtime, clock } = manualRuntime();
    const queue = {
      enqueue: async () => {
        clock.elapsed += 10_000;
      },
    };
    const { receiver, inbox } = setUp(undefined, { inbox: durable(), queue, leaseMs: 60_000, runtime });
    await inbox.record(someEvents(64), due);
    const { queued } = await receiver.redrive();
    expect(queued).toBeGreaterThanOrEqual(16);
    expect(queued).toBeLessThan(64);
  });
});

describe('the text of an event', () => {
  const text = (id: string, type = 'transfer.settled') =>
    ` { "id": "${id}", "type": "${type}", "created_at": "2026-01-02T03:04:05Z",\n\t"payload": { "z": 1e400, "n": -0, "1": 12345678901234567890, "a": "\\u00e9" } }\n`;

  test('is context.json as it was signed, at the delivery and when it runs again', async () => {
    const clock = { now: 0 };
    const seen: string[] = [];
    const { receiver, deliver } = setUp(
      (_, { json }) => {
        seen.push(json);
        if (seen.length === 1) throw new Error('no');
      },
      { inbox: durable(clock) },
    );
    await receiver.receive(await delivery(text('evt_exact')));
    clock.now += HOUR_MS;
    expect(await receiver.redrive()).toMatchObject({ handled: 1 });
    expect(seen).toEqual([text('evt_exact'), text('evt_exact')]);
    const plain = anEvent();
    await deliver(plain);
    expect(seen.at(-1)).toBe(JSON.stringify(plain));
  });

  test.each(['accept', 'handle'] as const)(
    'is context.json and what the inbox stores as %s is given it, or the event serialized',
    async (method) => {
      const seen: string[] = [];
      const { receiver, inbox } = setUp((_, { json }) => void seen.push(json));
      for (const origin of ['push', 'pull', 'redrive'] as const) {
        const event = anEvent();
        const json = JSON.stringify({ ...event, note: 'as it arrived' });
        expect(await receiver[method](event, origin, { json })).toMatchObject({
          kind: 'handled',
          origin,
          event,
        });
        expect(seen.at(-1)).toBe(json);
        expect(await inbox.find(event.id)).toMatchObject({ origin, event: JSON.parse(json) });
        const plain = anEvent();
        await receiver[method](plain, origin);
        expect(seen.at(-1)).toBe(JSON.stringify(plain));
      }
    },
  );

  test('is stored and enqueued as it arrived, and redrive enqueues it as it was stored', async () => {
    const clock = { now: 0 };
    const enqueued: unknown[] = [];
    const queue: Queue = { enqueue: async (_event, options) => void enqueued.push(options?.json) };
    const { receiver, inbox } = setUp(undefined, { inbox: durable(clock), queue });
    await receiver.receive(await delivery(text('evt_known')));
    clock.now += HOUR_MS;
    expect(await receiver.redrive()).toMatchObject({ queued: 1 });
    expect(enqueued).toEqual([text('evt_known'), text('evt_known')]);
    await receiver.receive(await delivery(text('evt_new', 'mint.completed')));
    const taken = await inbox.takeDue({ limit: 1, visibilityTimeoutMs: 1, types: ['mint.completed'] });
    expect(taken).toMatchObject([{ json: text('evt_new', 'mint.completed') }]);
  });
});
