/** What an event gets that the inbox has in some state, in a process with or without a handler for its type. */
import { toWebhookResponse } from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent } from './delivery.js';
import { durable, HOUR_MS, STATES, setUp } from './set-up.js';

type State = keyof typeof STATES;

const without = { handlers: {} };
const otherHandler = { handlers: { 'redeem.failed': () => undefined } };

describe('an event of a known type without a handler here', () => {
  test.each<[State, durable: string, memory: string, status: number]>([
    ['new', 'ignored', 'ignored', 200],
    ['done', 'duplicate', 'duplicate', 200],
    ['parked', 'parked', 'parked', 200],
    ['dead', 'dead', 'dead', 200],
    ['received', 'queued', 'ERR_EVENT_BUSY', 202],
    ['leased', 'queued', 'ERR_EVENT_BUSY', 202],
    ['failed', 'queued', 'ERR_EVENT_BUSY', 202],
  ])(
    'that is %s is %s in a durable inbox and %s in memory, and does not change',
    async (state, kind, code, status) => {
      for (const answer of ['handled', 'recorded'] as const) {
        const { inbox, deliver, receiver } = setUp(undefined, { ...without, answer, inbox: durable() });
        const event = anEvent();
        await STATES[state](inbox, event);
        const before = await inbox.find(event.id);
        const outcome = await deliver(event);
        expect([outcome.kind, toWebhookResponse(outcome).status]).toEqual([kind, status]);
        if (state !== 'new') expect(await inbox.find(event.id)).toEqual(before);
        const next = state === 'new' ? 'duplicate' : kind;
        expect((await receiver.accept(event, 'pull')).kind).toBe(next);
        expect((await receiver.handle(event, 'pull')).kind).toBe(next);
      }
      const memory = setUp(undefined, without);
      const event = anEvent();
      await STATES[state](memory.inbox, event);
      expect(await memory.codeOf(event)).toBe(code);
    },
  );

  test('is busy with a retry time and the fix while another process has to run it from memory', async () => {
    const { inbox, lines, deliver } = setUp(undefined, without);
    const event = anEvent();
    await STATES.leased(inbox, event);
    expect(toWebhookResponse(await deliver(event))).toMatchObject({
      status: 503,
      headers: { 'retry-after': '5' },
    });
    expect(lines).toEqual([
      expect.stringMatching(/no handler.*Give all receivers that share this inbox the same handlers/),
    ]);
  });
});

describe('a job of an event without a handler here', () => {
  test.each<[State, string, State]>([
    ['new', 'ignored', 'done'],
    ['received', 'ignored', 'done'],
    ['parked', 'ignored', 'done'],
    ['done', 'duplicate', 'done'],
    ['dead', 'dead', 'dead'],
    ['leased', 'ERR_EVENT_BUSY', 'leased'],
    ['failed', 'ERR_EVENT_NOT_DUE', 'failed'],
  ])('that is %s is %s, and then %s', async (state, code, after) => {
    const { receiver, inbox } = setUp(undefined, { ...without, inbox: durable() });
    const event = anEvent();
    await STATES[state](inbox, event);
    const { kind, error } = await receiver.handle(event, 'queue');
    expect(error?.code ?? kind).toBe(code);
    expect(await inbox.find(event.id)).toMatchObject({ state: after });
  });

  test('that failed in a worker with the handler is busy, and runs there later', async () => {
    const clock = { now: 0 };
    const inbox = durable(clock);
    const event = anEvent();
    await setUp(() => Promise.reject(new Error('no')), { inbox }).deliver(event);
    clock.now += HOUR_MS;
    const { kind, error } = await setUp(undefined, { ...without, inbox }).receiver.handle(event, 'queue');
    expect([kind, error?.code]).toEqual(['busy', 'ERR_EVENT_BUSY']);
    expect(await inbox.find(event.id)).toMatchObject({
      state: 'failed',
      lastError: expect.stringMatching(/^ERR_EVENT_BUSY: This process has no handler/),
    });
    clock.now += 5_000;
    expect(await setUp(undefined, { inbox }).receiver.redrive()).toMatchObject({ handled: 1 });
  });
});

describe('an event with a handler', () => {
  test.each<[State, handled: string, recorded: string]>([
    ['new', 'handled', 'queued'],
    ['received', 'handled', 'queued'],
    ['parked', 'handled', 'queued'],
    ['done', 'duplicate', 'duplicate'],
    ['dead', 'dead', 'dead'],
    ['leased', 'ERR_EVENT_BUSY', 'queued'],
    ['failed', 'ERR_EVENT_NOT_DUE', 'queued'],
  ])('that is %s is %s, and with `recorded` %s', async (state, handled, recorded) => {
    for (const answer of ['handled', 'recorded'] as const) {
      const handler = vi.fn();
      const { receiver, inbox, codeOf } = setUp(handler, { inbox: durable(), answer });
      const event = anEvent();
      await STATES[state](inbox, event);
      expect(await codeOf(event)).toBe(answer === 'handled' ? handled : recorded);
      await receiver.close();
      expect(handler).toHaveBeenCalledTimes(handled === 'handled' ? 1 : 0);
    }
  });

  test('that failed runs at its next delivery in memory, before its retry time', async () => {
    const { inbox, codeOf } = setUp();
    const event = anEvent();
    await STATES.failed(inbox, event);
    expect(await codeOf(event)).toBe('handled');
  });
});

describe('an event of an unknown type', () => {
  const unknown = () => anEvent({ type: 'mint.completed' });

  test.each<[State, string]>([
    ['new', 'parked'],
    ['parked', 'parked'],
    ['done', 'duplicate'],
    ['dead', 'dead'],
  ])('that is %s is %s, and onUnknown is called only for a new one', async (state, kind) => {
    const onUnknown = vi.fn();
    const { inbox, deliver } = setUp(undefined, { onUnknown });
    const event = unknown();
    await STATES[state](inbox, event);
    const outcome = await deliver(event);
    expect([outcome.kind, toWebhookResponse(outcome).status]).toEqual([kind, 200]);
    await deliver(event);
    expect(onUnknown.mock.calls).toEqual(state === 'new' ? [[event]] : []);
  });

  test('is parked although onUnknown throws, which is logged under its name', async () => {
    const { lines, codeOf } = setUp(undefined, {
      onUnknown: () => {
        throw new Error('observer');
      },
    });
    expect(await codeOf(unknown())).toBe('parked');
    expect(lines).toEqual([expect.stringMatching(/onUnknown threw an error.*observer/s)]);
  });
});

describe('redrive', () => {
  test.each(['parked', 'received', 'leased', 'failed'] as const)(
    'leaves a %s event without a handler to a process that has one',
    async (state) => {
      const clock = { now: 0 };
      const inbox = durable(clock);
      const event = anEvent();
      await STATES[state](inbox, event);
      clock.now += 2 * HOUR_MS;
      const before = await inbox.find(event.id);
      const counts = await setUp(undefined, { ...otherHandler, inbox }).receiver.redrive();
      expect(Object.values(counts).every((count) => count === 0)).toBe(true);
      expect(await inbox.find(event.id)).toEqual(before);
      expect(await setUp(undefined, { inbox }).receiver.redrive()).toMatchObject({ handled: 1 });
    },
  );

  test.each([without, otherHandler])(
    'enqueues events of all known types, but no others, with a queue',
    async (options) => {
      const enqueued: string[] = [];
      const queue = { enqueue: async ({ id }: { id: string }) => void enqueued.push(id) };
      const { receiver, inbox } = setUp(undefined, { ...options, inbox: durable(), queue });
      const [parked, received] = [anEvent(), anEvent()];
      await inbox.record([parked, anEvent({ type: 'mint.completed' })], { dueInMs: null, origin: 'push' });
      await inbox.record([received], { dueInMs: 0, origin: 'push' });
      expect(await receiver.redrive()).toMatchObject({ queued: 2 });
      expect(enqueued.sort()).toEqual([parked.id, received.id].sort());
    },
  );
});
