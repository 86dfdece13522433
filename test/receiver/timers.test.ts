/** What the receiver asks of its runtime: each wait has the time that the docs name. */
import type { Inbox, ReceiverOptions } from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred, delivery } from './delivery.js';
import {
  down,
  durable,
  isSettled,
  manualRuntime,
  never,
  type SettledHandler,
  setUp as setUpReceiver,
  until,
} from './set-up.js';

function setUp(handler?: SettledHandler, options: Partial<ReceiverOptions> = {}, random = 0) {
  const manual = manualRuntime(random);
  return {
    ...manual,
    ...setUpReceiver(handler, { inbox: durable(), runtime: manual.runtime, ...options }),
  };
}

test('a body is waited for as long as bodyTimeoutMs, and then its reading is cancelled', async () => {
  const { receiver, fire, pending } = setUp(undefined, { bodyTimeoutMs: 2_500 });
  const cancelBody = vi.fn();
  const answer = receiver.receive({ ...(await delivery(anEvent())), cancelBody, body: never });
  expect(pending()).toEqual([2_500]);
  expect(cancelBody).not.toHaveBeenCalled();
  fire(2_500);
  const { error } = await answer;
  expect(error?.code).toBe('ERR_BODY_TIMEOUT');
  expect(error?.message).toMatch(/within 2500 ms\. Check that proxies forward it .* raise bodyTimeoutMs/);
  expect(cancelBody).toHaveBeenCalledOnce();
});

test('a handler that begins late is told by its signal when its lease is over, before handlerTimeoutMs', async () => {
  const inbox = durable();
  const end = deferred();
  let signal: AbortSignal | undefined;
  const { receiver, clock, fire, codes } = setUp(
    (_, context) => {
      signal = context.signal;
      return end.promise;
    },
    {
      inbox: {
        ...inbox,
        async claim(event, options) {
          clock.elapsed += 55_000;
          return inbox.claim(event, options);
        },
      },
      leaseMs: 60_000,
      handlerTimeoutMs: 10_000,
    },
  );
  const answer = receiver.handle(anEvent(), 'push');
  await until(() => fire(5_000) === 1);
  expect(signal?.aborted).toBe(true);
  expect((await answer).error?.message).toContain('is still running after 5000 ms');
  end.resolve();
  await receiver.close();
  expect(codes()).toEqual(['ERR_HANDLER_TIMEOUT', 'handled']);
});

test('the time limit of a handler begins before the handler, so work before its first await counts', async () => {
  const end = deferred();
  let waits: readonly number[] = [];
  const { receiver, pending, fire } = setUp(
    () => {
      waits = pending();
      return end.promise;
    },
    { leaseMs: 60_000, handlerTimeoutMs: 10_000 },
  );
  const answer = receiver.handle(anEvent(), 'push');
  await until(() => fire(10_000) === 1);
  expect(waits).toEqual([10_000]);
  expect((await answer).error?.code).toBe('ERR_HANDLER_TIMEOUT');
  end.resolve();
  await receiver.close();
});

describe('a handler whose lease is over before it can begin is not started, and its event stays claimed', () => {
  test.each([
    [60_000, 'ERR_LEASE_LOST'],
    [59_999, 'handled'],
  ])('when the inbox takes %i ms to answer: %s', async (ms, code) => {
    const inbox = durable();
    const handler = vi.fn();
    const claim: Inbox['claim'] = async (event, options) => {
      const claimed = await inbox.claim(event, options);
      clock.elapsed += event.id === slow.id ? ms : 0;
      return claimed;
    };
    const { clock, lines, codeOf } = setUp(handler, {
      inbox: { ...inbox, claim },
      leaseMs: 60_000,
      maxConcurrency: 1,
    });
    const slow = anEvent();
    expect(await codeOf(slow)).toBe(code);
    expect(handler).toHaveBeenCalledTimes(code === 'handled' ? 1 : 0);
    if (code === 'handled') return;
    expect(lines.join()).toContain('The handler did not start');
    expect(await inbox.find(slow.id)).toMatchObject({ state: 'leased', attempts: 1 });
    expect(await codeOf()).toBe('handled');
  });

  test('but in a process that was frozen after its answer it is claimed when it goes on, and runs', async () => {
    const { receiver, clock, fire, deliver, codes } = setUp(undefined, {
      answer: 'recorded',
      leaseMs: 60_000,
    });
    await deliver();
    clock.elapsed += 60_000;
    await until(() => fire(0) === 1);
    await receiver.close();
    expect(codes()).toEqual(['queued', 'handled']);
  });
});

test.each([
  ['none', 0, 0.5],
  ['half', 0.5, 0.75],
])(
  'the wait after a failed attempt doubles from 1 s to 1 h, minus a random part of up to a half: %s of it was left',
  async (_, random, part) => {
    const waits: (number | null)[] = [];
    const inbox = durable();
    const fail: Inbox['fail'] = (lease, failure) => {
      waits.push(failure.retryAfterMs);
      return inbox.fail(lease, { ...failure, retryAfterMs: failure.retryAfterMs && 0 });
    };
    const { receiver } = setUp(down, { inbox: { ...inbox, fail }, maxAttempts: 15 }, random);
    const event = anEvent();
    for (let attempt = 1; attempt <= 15; attempt++) await receiver.handle(event, 'push');
    const full = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600];
    expect(waits).toEqual([...full.map((seconds) => seconds * 1_000 * part), null]);
  },
);

test('an outcome has how long its handler ran, in whole ms, without the time of the inbox', async () => {
  const inbox = durable();
  const { receiver, clock } = setUp(
    async () => {
      clock.elapsed += 1_250.4;
    },
    {
      inbox: {
        ...inbox,
        complete(lease) {
          clock.elapsed += 100;
          return inbox.complete(lease);
        },
      },
    },
  );
  expect(await receiver.handle(anEvent(), 'push')).toMatchObject({ kind: 'handled', handlerMs: 1_250 });
});

test('close waits for leaseMs and not longer for an inbox that has stopped answering', async () => {
  const { receiver, fire } = setUp(undefined, {
    inbox: { ...durable(), claim: never },
    leaseMs: 45_000,
  });
  void receiver.handle(anEvent(), 'push');
  const closed = receiver.close();
  expect(await isSettled(closed)).toBe(false);
  fire(45_000);
  await closed;
});
