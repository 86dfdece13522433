/** An inbox that stops answering: each step fails after `inboxTimeoutMs`. */
import type { Inbox } from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred } from './delivery.js';
import { down, durable, HOUR_MS, never, type SettledHandler, settled, setUp } from './set-up.js';

const inTime = { inboxTimeoutMs: 20 } as const;
const unknown = { ...anEvent(), type: 'mint.completed' };
const ignored = { ...anEvent(), type: 'redeem.completed' };

const STEPS = [
  ['claim', anEvent(), () => undefined],
  ['complete', anEvent(), () => undefined],
  ['fail', anEvent(), down],
  ['record', unknown, () => undefined],
  ['ignore', ignored, () => undefined],
] as const;

test.each(STEPS)('a delivery is unavailable when %s does not answer', async (step, event, handler) => {
  const silent = { ...durable(), [step]: never };
  const { deliver, lines } = setUp(handler as SettledHandler, { inbox: silent, ...inTime });
  expect(await deliver(event)).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_INBOX_FAILED' } });
  expect(lines.join()).toContain('did not respond within 20 ms');
});

test('a redrive rejects when takeDue does not answer', async () => {
  const { receiver } = setUp(undefined, { inbox: { ...durable(), takeDue: never }, ...inTime });
  await expect(receiver.redrive()).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED' });
});

describe('with transactions', () => {
  /** A memory inbox with transactions that begin and commit when the test says so. */
  function transactional(begin: Promise<void>, commit: Promise<void>): Inbox {
    const inbox = durable();
    const transaction: NonNullable<Inbox['transaction']> = async (lease, effect) => {
      await begin;
      await effect(undefined);
      await commit;
      return inbox.complete(lease);
    };
    return { ...inbox, transaction };
  }

  test('an event is unavailable when its transaction does not begin, and its handler never runs in that attempt', async () => {
    const begin = deferred();
    const handler = vi.fn();
    const inbox = transactional(begin.promise, Promise.resolve());
    const { codeOf } = setUp(handler, { inbox, ...inTime });
    expect(await codeOf()).toBe('ERR_INBOX_FAILED');
    begin.resolve();
    await settled();
    expect(handler).not.toHaveBeenCalled();
  });

  test('an event is unavailable when its commit does not answer', async () => {
    const { codeOf } = setUp(undefined, { inbox: transactional(Promise.resolve(), never()), ...inTime });
    expect(await codeOf()).toBe('ERR_INBOX_FAILED');
  });

  test('a handler may run longer than inboxTimeoutMs', async () => {
    const handler = () => new Promise<void>((resolve) => setTimeout(resolve, 60));
    const inbox = transactional(Promise.resolve(), Promise.resolve());
    const { codeOf } = setUp(handler, { inbox, ...inTime });
    expect(await codeOf()).toBe('handled');
  });
});

test('an attempt of a machine that was suspended longer than the lease does not start its handler', async () => {
  const inbox = durable();
  const clock = { now: Date.now() };
  const handler = vi.fn();
  // The monotonic clock of Linux stands still meanwhile.
  const runtime = { now: () => clock.now, elapsed: () => 1_000 };
  const claim: Inbox['claim'] = async (event, options) => {
    const claimed = await inbox.claim(event, options);
    clock.now += HOUR_MS;
    return claimed;
  };
  const { codeOf } = setUp(handler, { inbox: { ...inbox, claim }, runtime });
  expect(await codeOf()).toBe('ERR_LEASE_LOST');
  expect(handler).not.toHaveBeenCalled();
});
