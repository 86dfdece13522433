/** What every queue owes, whichever engine is behind it. */
import { createReceiver, memoryInbox, type Receiver, type UnknownEvent } from 'stablehooks';
import type { Inbox, Queue } from 'stablehooks/conformance';
import { expect } from 'vitest';
import type { Service } from '../services/service.js';
import { awaitHandled } from './handled.js';
import { someEvent } from './some-event.js';

/** Events go through the queue to a worker once each, and what fails is retried by the engine alone. */
export async function expectDeliveredOnce({
  queue,
  inbox,
  startWorker,
}: {
  readonly queue: Queue;
  readonly inbox: Inbox<never>;
  startWorker(receiver: Receiver): void | Promise<void>;
}): Promise<void> {
  const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue });
  const flaky = someEvent();
  const ran: string[] = [];
  const handled = awaitHandled(6);
  const receiver = createReceiver({
    secret: 'x',
    inbox,
    handlers: {
      'transfer.settled': ({ id }, { attempt }) => {
        if (id === flaky.id && attempt === 1) throw new Error('not yet');
        ran.push(id);
      },
    },
    onOutcome: handled.onOutcome,
  });
  const events = [flaky, ...Array.from({ length: 5 }, () => someEvent())];
  for (const event of events) {
    expect((await front.accept(event, 'push')).kind).toBe('queued');
  }
  await startWorker(receiver);
  const outcomes = await handled.all;
  expect(outcomes.filter(({ attempt }) => attempt === 2)).toMatchObject([{ event: flaky, origin: 'queue' }]);
  expect([...ran].sort()).toEqual(events.map(({ id }) => id).sort());
  expect((await front.accept(flaky, 'push')).kind).toBe('duplicate');
}

/**
 * While the queue's server is away the answer is unavailable and the event is in the inbox; back, it goes in
 * once.
 */
export async function expectOutageSurvived({
  queue,
  server,
  waiting,
  ready = async () => undefined,
}: {
  readonly queue: Queue;
  readonly server: Service;
  /** How many jobs wait or run. */
  waiting(): Promise<number>;
  /** Resolves when the engine's client has connected again. */
  ready?(): Promise<unknown>;
}): Promise<void> {
  const { inbox, recorded } = recordingInbox();
  const front = createReceiver({ secret: 'x', handlers: {}, inbox, queue, onOutcome: () => undefined });
  const event = someEvent();
  await ready();
  await server.halt();
  try {
    const outcome = await front.accept(event, 'push');
    expect(outcome).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_QUEUE_FAILED' } });
  } finally {
    await server.start();
  }
  expect(recorded).toEqual([event]);
  await ready();
  expect((await front.accept(event, 'push')).kind).toBe('queued');
  expect(await waiting()).toBe(1);
}

/** An inbox on another server than the queue's, as far as this needs one, and what it recorded first. */
function recordingInbox() {
  const memory = memoryInbox();
  const recorded: UnknownEvent[] = [];
  const record: typeof memory.record = async (page, options) => {
    const results = await memory.record(page, options);
    recorded.push(...page.filter((_, index) => results[index] === 'new'));
    return results;
  };
  return { inbox: { ...memory, durable: true, record }, recorded };
}
