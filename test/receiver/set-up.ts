/** Receivers as the tests of this folder make them, and what their handlers, inboxes and clocks do. */
import {
  createReceiver,
  type Inbox,
  type InboxOperations,
  memoryInbox,
  type Outcome,
  type ReceiverOptions,
  type UnknownEvent,
} from 'stablehooks';
import { expect, vi } from 'vitest';
import { claimed } from '../inboxes/claimed.js';
import { anEvent, deferred, delivery, secret } from './delivery.js';

export type SettledHandler = NonNullable<ReceiverOptions['handlers']['transfer.settled']>;

export const HOUR_MS = 3_600_000;

/** The memory inbox, vouched durable, so that rules of durable inboxes show without a database. */
export function durable(clock?: { readonly now: number }): Inbox & InboxOperations {
  return { ...memoryInbox(clock && { runtime: { now: () => clock.now } }), durable: true };
}

export function setUp(handler: SettledHandler = () => undefined, options: Partial<ReceiverOptions> = {}) {
  const inbox = (options.inbox ?? memoryInbox()) as Inbox & InboxOperations;
  const outcomes: Outcome[] = [];
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const receiver = createReceiver({
    secret,
    handlers: { 'transfer.settled': handler },
    onOutcome: (outcome) => void outcomes.push(outcome),
    logger: { warn: log, error: log },
    ...options,
    inbox,
  });
  /** The kind of each outcome, or the code of its error. */
  const codes = (): string[] => outcomes.map(({ kind, error }) => error?.code ?? kind);
  const handled = () => outcomes.filter(({ kind }) => kind === 'handled').length;
  const deliver = async (event: UnknownEvent = anEvent()) => receiver.receive(await delivery(event));
  const codeOf = async (event?: UnknownEvent) => {
    const { kind, error } = await deliver(event);
    if (error === undefined) return kind;
    expect(error.message).toMatch(/\w\.$/);
    return error.code;
  };
  return { receiver, inbox, outcomes, lines, codes, handled, deliver, codeOf };
}

/** Waits until it holds, even on a busy machine. */
export const until = (holds: () => boolean | Promise<boolean>) =>
  vi.waitUntil(holds, { timeout: 60_000, interval: 1 });

/** Lets everything run that waits for nothing from outside. */
export const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Whether the promise is settled, once everything has run that can. */
export async function isSettled(promise: Promise<unknown> | undefined): Promise<boolean> {
  let isOver = false;
  promise?.finally(() => {
    isOver = true;
  });
  await settled();
  return isOver;
}

export const down = (): Promise<never> => Promise.reject(new Error('down'));

export const never = () => new Promise<never>(() => undefined);

/** A handler that waits until the test ends it, and the ids of the events that it began with. */
export function gated() {
  const begun: string[] = [];
  const gates = new Map<string, () => void>();
  const handler: SettledHandler = (event) => {
    begun.push(event.id);
    const { promise, resolve } = deferred();
    gates.set(event.id, resolve);
    return promise;
  };
  const end = async (id: string | undefined) => {
    await until(() => gates.has(id ?? ''));
    gates.get(id ?? '')?.();
  };
  return { handler, begun, end };
}

/** A handler that takes a turn of the event loop, and the most that ran at the same time. */
export function counting() {
  const count = { running: 0, most: 0 };
  const handler: SettledHandler = async () => {
    count.running += 1;
    count.most = Math.max(count.most, count.running);
    await settled();
    count.running -= 1;
  };
  return { handler, count };
}

export const someEvents = (count: number) => Array.from({ length: count }, () => anEvent());

/** A lease of the event, as another process has it. */
export const leaseOf = claimed;

/** The states that an event can be in before it is delivered again, and how each is reached. */
export const STATES = {
  new: async () => undefined,
  done: async (inbox, event) => void (await inbox.complete(await leaseOf(inbox, event))),
  parked: async (inbox, event) => void (await inbox.record([event], { dueInMs: null, origin: 'push' })),
  received: async (inbox, event) => void (await inbox.record([event], { dueInMs: 0, origin: 'pull' })),
  leased: async (inbox, event) => void (await leaseOf(inbox, event)),
  failed: async (inbox, event) =>
    void (await inbox.fail(await leaseOf(inbox, event), { retryAfterMs: HOUR_MS, error: 'no' })),
  dead: async (inbox, event) =>
    void (await inbox.fail(await leaseOf(inbox, event), { retryAfterMs: null, error: 'no' })),
} as const satisfies Record<string, (inbox: Inbox, event: UnknownEvent) => Promise<void>>;

/** A runtime whose timers call back when the test says so. */
export function manualRuntime(random = 0) {
  const timers = new Map<number, { readonly callback: () => void; readonly ms: number }>();
  const clock = { elapsed: 5_000 };
  let last = 0;
  const runtime = {
    elapsed: () => clock.elapsed,
    random: () => random,
    setTimeout(callback: () => void, ms: number) {
      last += 1;
      timers.set(last, { callback, ms });
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
  return { clock, runtime, pending, fire };
}
