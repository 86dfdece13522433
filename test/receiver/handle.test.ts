/** How an attempt ends: its handler, its time limit, its lease, its inbox. */
import {
  type HandlerContext,
  type Inbox,
  type InboxOperations,
  memoryInbox,
  PermanentError,
  type ReceiverOptions,
  StablehooksError,
  toWebhookResponse,
} from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import { anEvent, deferred } from './delivery.js';
import {
  down,
  durable,
  gated,
  HOUR_MS,
  isSettled,
  leaseOf,
  type SettledHandler,
  settled,
  setUp,
  until,
} from './set-up.js';

/** A value that runs when it is awaited, as the queries of some libraries do. */
const lazy = (then: (resolve: (value: unknown) => void, reject: (error: Error) => void) => void) =>
  Object.defineProperty({}, 'then', { value: then });

function unreadable(): never {
  throw new Error('unreadable');
}

describe('a handler that fails', () => {
  test.each<[string, SettledHandler]>([
    ['rejects', () => Promise.reject(new Error('no'))],
    [
      'throws',
      () => {
        throw new Error('no');
      },
    ],
    ['throws a string', () => Promise.reject('no')],
    ['throws nothing', () => Promise.reject(undefined)],
    [
      'throws an object that is no error, with the code of PermanentError',
      () => Promise.reject({ code: 'ERR_HANDLER_PERMANENT' }),
    ],
    [
      'throws an error of this package that says nothing of the event',
      () => Promise.reject(new StablehooksError('ERR_EVENT_MALFORMED', 'a file that it reads')),
    ],
    ['returns a thenable that rejects', () => lazy((_, no) => no(new Error('no')))],
  ])('and %s is failed, and runs again at the next delivery', async (_name, fail) => {
    let calls = 0;
    const { receiver, inbox } = setUp((event, context) => {
      calls += 1;
      return calls === 1 ? fail(event, context) : undefined;
    });
    const event = anEvent();
    const first = await receiver.handle(event, 'push');
    expect(first).toMatchObject({ kind: 'failed', attempt: 1, error: { code: 'ERR_HANDLER_FAILED' } });
    expect(toWebhookResponse(first).status).toBe(500);
    expect(first.error?.message).toContain('If a retry cannot help, throw PermanentError instead');
    expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', attempts: 1 });
    expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled', attempt: 2 });
    expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'duplicate' });
  });

  test('is dead-lettered and answered 200 if it throws PermanentError, and does not run again', async () => {
    const thrown = new PermanentError('account closed', { cause: new Error('410 Gone') });
    const handler = vi.fn<SettledHandler>(() => Promise.reject(thrown));
    const { receiver, inbox } = setUp(handler);
    const event = anEvent();
    const outcome = await receiver.handle(event, 'push');
    expect(outcome).toMatchObject({ kind: 'dead', error: thrown });
    expect(toWebhookResponse(outcome).status).toBe(200);
    expect(await receiver.handle(event, 'push')).toEqual({ kind: 'dead', origin: 'push', event });
    expect(handler).toHaveBeenCalledOnce();
    expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_PERMANENT: account closed');
  });

  test('is dead-lettered if it throws PermanentError of the other module format of the package', async () => {
    const other = Object.assign(new Error('closed'), { code: 'ERR_HANDLER_PERMANENT' });
    const { error } = await setUp(() => Promise.reject(other)).deliver();
    expect(error).toMatchObject({ name: 'PermanentError', cause: other });
  });

  test.each<[string, () => unknown]>([
    ['an error whose message is a symbol', () => Object.assign(new Error(), { message: Symbol('no') })],
    ['an object without a prototype', () => Object.create(null)],
    [
      'a PermanentError whose message cannot be read',
      () => Object.defineProperty(new PermanentError('no'), 'message', { get: unreadable }),
    ],
    [
      'a proxy that throws at everything',
      () => new Proxy({}, { get: unreadable, has: unreadable, getPrototypeOf: unreadable }),
    ],
    [
      'an error that is its own cause',
      () => {
        const error = new Error('no');
        return Object.assign(error, { cause: error });
      },
    ],
  ])('and throws %s does not leave its event leased', async (_name, toThrown) => {
    const { receiver, inbox } = setUp(() => Promise.reject(toThrown()));
    const event = anEvent();
    const { kind } = await receiver.handle(event, 'push');
    expect(['failed', 'dead']).toContain(kind);
    expect(await inbox.find(event.id)).toMatchObject({ state: kind });
  });

  test.each([
    ['a durable inbox', true, ['failed', 'failed', 'dead', 'dead']],
    ['memory', false, ['failed', 'failed', 'failed', 'failed']],
  ])('maxAttempts times is dead-lettered only by a durable inbox: %s', async (_name, isDurable, kinds) => {
    const clock = { now: 0 };
    const inbox = { ...durable(clock), durable: isDurable };
    const { receiver, outcomes } = setUp(() => Promise.reject(new Error('no')), { inbox, maxAttempts: 3 });
    const event = anEvent();
    for (let attempt = 1; attempt <= 4; attempt++) {
      await receiver.handle(event, 'push');
      clock.now += HOUR_MS;
    }
    expect(outcomes.map(({ kind }) => kind)).toEqual(kinds);
    expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_FAILED: no');
  });

  test('is not run by replays before its retry time, and takes 6 hours or more to be dead-lettered', async () => {
    const clock = { now: 0 };
    const handler = vi.fn<SettledHandler>(down);
    const { receiver } = setUp(handler, { inbox: durable(clock) });
    const event = anEvent();
    await receiver.handle(event, 'push');
    for (let replay = 0; replay < 26; replay++) {
      expect((await receiver.handle(event, 'push')).error?.code).toBe('ERR_EVENT_NOT_DUE');
    }
    expect(handler).toHaveBeenCalledOnce();
    for (;;) {
      const { kind, error } = await receiver.handle(event, 'push');
      if (kind === 'dead') break;
      if (kind === 'busy') clock.now += error.retryAfterMs ?? Number.NaN;
    }
    expect(handler).toHaveBeenCalledTimes(25);
    expect(clock.now).toBeGreaterThan(6 * HOUR_MS);
  });

  test('without recording a result in its last attempt is dead-lettered without another run, and the reason says so', async () => {
    const clock = { now: 0 };
    const handler = vi.fn<SettledHandler>(down);
    const { receiver, inbox } = setUp(handler, { inbox: durable(clock), maxAttempts: 2 });
    const event = anEvent();
    await receiver.handle(event, 'push');
    clock.now += HOUR_MS;
    await leaseOf(inbox, event, { leaseMs: 10 });
    clock.now += HOUR_MS;
    expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'dead', attempt: 3 });
    expect(handler).toHaveBeenCalledOnce();
    const record = await inbox.find(event.id);
    expect(record?.lastError).toMatch(
      /^ERR_HANDLER_FAILED: Attempt 2 at transfer\.settled recorded no result: .*The handler's effect may have happened/,
    );
    expect(record?.history.map(({ result }) => result)).toEqual(['failed', 'lapsed', 'dead']);
  });
});

test.each<[string, () => unknown]>([
  ['a value', () => ({ rows: 1 })],
  ['a promise of one', async () => [1]],
  ['a lazy query, which runs when it is awaited', () => lazy((done) => done(7))],
])('a handler can return %s', async (_name, handler) => {
  expect(await setUp(handler).codeOf()).toBe('handled');
});

test('a line of the log has at most 10,000 characters of an error, however much of a response it quotes', async () => {
  const { deliver, lines } = setUp(() => {
    throw new Error(`The bank answered ${'<p>'.repeat(1_000_000)}`, {
      cause: new Error('x'.repeat(1_000_000)),
    });
  });
  await deliver();
  expect(lines.map(({ length }) => length < 10_100)).toEqual([true]);
  expect(lines[0]).toMatch(/^stablehooks: failed .*The bank answered <p>.*… \(\d{7} more characters\)$/s);
});

test('the parts of a context can be taken apart', async () => {
  let taken: Partial<HandlerContext> = {};
  const { receiver } = setUp((_event, { tx, signal, attempt, origin, json }) => {
    taken = { tx, signal, attempt, origin, json };
  });
  const event = anEvent();
  await receiver.handle(event, 'pull');
  const json = JSON.stringify(event);
  expect(taken).toEqual({ tx: undefined, attempt: 1, origin: 'pull', signal: expect.any(AbortSignal), json });
});

test('simultaneous deliveries of one event run its handler once; the others are busy with a retry time', async () => {
  const { handler, begun, end } = gated();
  const { deliver } = setUp(handler);
  const event = anEvent();
  const first = deliver(event);
  await until(() => begun.length === 1);
  const second = await deliver(event);
  expect(second.error?.code).toBe('ERR_EVENT_BUSY');
  expect(Number(toWebhookResponse(second).headers['retry-after'])).toBeLessThanOrEqual(60);
  await end(event.id);
  expect((await first).kind).toBe('handled');
  expect(begun).toEqual([event.id]);
});

test.each([
  ['ends well', async () => undefined],
  ['fails', () => Promise.reject(new PermanentError('too late to say so'))],
])(
  'a handler that %s after another process has claimed its event is busy, and the other attempt goes on',
  async (_name, finish) => {
    const clock = { now: 0 };
    const inbox = durable(clock);
    const { receiver } = setUp(
      async (event) => {
        clock.now += 120_000;
        await leaseOf(inbox, event);
        await finish();
      },
      { inbox },
    );
    const event = anEvent();
    const outcome = await receiver.handle(event, 'push');
    expect(outcome).toMatchObject({ kind: 'busy', error: { code: 'ERR_LEASE_LOST', retryAfterMs: 1_000 } });
    expect(toWebhookResponse(outcome).status).toBe(503);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'leased', attempts: 2, lastError: null });
  },
);

describe('an inbox that fails', () => {
  test.each([
    ['claim', undefined],
    ['complete', undefined],
    // A failure that is not recorded must not be answered 200.
    ['fail', () => Promise.reject(new PermanentError('closed'))],
  ] as const)(
    'at %s makes the delivery unavailable, with the error as the cause, even if it throws synchronously',
    async (step, handler) => {
      const throwing = () => {
        throw new Error('bug in a store');
      };
      for (const fail of [down, throwing]) {
        const outcome = await setUp(handler, { inbox: { ...memoryInbox(), [step]: fail } }).deliver();
        expect(outcome).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_INBOX_FAILED' } });
        expect(outcome.error?.cause).toMatchObject({ message: expect.stringMatching(/down|bug/) });
        expect(toWebhookResponse(outcome)).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
      }
    },
  );
});

describe('close', () => {
  test('waits for each of several handlers, and refuses new deliveries', async () => {
    const { handler, begun, end } = gated();
    const { receiver, codeOf } = setUp(handler);
    const running = [anEvent(), anEvent()].map((event) => receiver.handle(event, 'push'));
    await until(() => begun.length === 2);
    const closed = receiver.close();
    const refused = await receiver.handle(anEvent(), 'push');
    expect(refused.error?.code).toBe('ERR_RECEIVER_CLOSED');
    expect(toWebhookResponse(refused)).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
    expect(await codeOf()).toBe('ERR_RECEIVER_CLOSED');
    await end(begun[0]);
    await running[0];
    expect(await isSettled(closed)).toBe(false);
    await end(begun[1]);
    await closed;
    expect((await Promise.all(running)).map(({ kind }) => kind)).toEqual(['handled', 'handled']);
  });
});

/** An inbox with transactions that counts how they ended. */
function transactional(): Inbox & InboxOperations & { readonly ends: string[] } {
  const inbox = durable();
  const ends: string[] = [];
  return {
    ...inbox,
    ends,
    async transaction(lease, effect) {
      try {
        await effect(undefined);
      } catch (error) {
        ends.push('rollback');
        throw error;
      }
      ends.push('commit');
      return inbox.complete(lease);
    },
  };
}

describe.each(['without transactions', 'in a transaction'])('an overdue handler %s', (name) => {
  const inboxOf = () => (name === 'in a transaction' ? transactional() : { ...durable(), ends: [] });

  /** A receiver whose handler ends when the test says so, and ignores its signal. */
  function setUpOverdue(options: Partial<ReceiverOptions> = {}) {
    const ends: { readonly resolve: () => void; readonly reject: (error: unknown) => void }[] = [];
    const signals: AbortSignal[] = [];
    const inbox = inboxOf();
    const parts = setUp(
      (_event, { signal }) => {
        signals.push(signal);
        return new Promise<void>((resolve, reject) => void ends.push({ resolve, reject }));
      },
      { handlerTimeoutMs: 5, inbox, ...options },
    );
    return { ...parts, ends, signals, transactions: inbox.ends };
  }

  test('is failed at its limit, is not started beside itself, and its event is done when it ends well', async () => {
    const { receiver, inbox, lines, codes, codeOf, ends, signals, transactions } = setUpOverdue();
    const event = anEvent();
    const outcome = await receiver.handle(event, 'push');
    expect(outcome).toMatchObject({ kind: 'failed', attempt: 1, error: { code: 'ERR_HANDLER_TIMEOUT' } });
    expect(signals[0]?.reason).toBe(outcome.error);
    expect(lines[0]).toMatch(/still running after 5 ms.*Pass `signal`/);
    expect(transactions).toEqual([]);
    expect(await codeOf(event)).toBe('ERR_EVENT_BUSY');
    expect(await receiver.redrive()).toMatchObject({ handled: 0 });
    ends[0]?.resolve();
    await receiver.close();
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done', attempts: 1 });
    expect(codes()).toEqual(['ERR_HANDLER_TIMEOUT', 'ERR_EVENT_BUSY', 'handled']);
    expect(lines.at(-1)).toMatch(
      /handled evt_\d+: the handler finished, but took longer than handlerTimeoutMs/,
    );
    expect([ends.length, transactions]).toEqual([1, name === 'in a transaction' ? ['commit'] : []]);
  });

  test('that fails later fails its event, and is logged', async () => {
    const { receiver, inbox, lines, ends, transactions } = setUpOverdue();
    const event = anEvent();
    await receiver.handle(event, 'push');
    ends[0]?.reject(new Error('too late'));
    await receiver.close();
    const lastError = 'ERR_HANDLER_FAILED: too late';
    expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', lastError });
    expect(lines.at(-1)).toMatch(/failed .*too late/s);
    expect(transactions).toEqual(name === 'in a transaction' ? ['rollback'] : []);
  });

  test('that throws the reason of its signal has failed by its time limit', async () => {
    const { receiver, inbox, ends, signals } = setUpOverdue();
    const event = anEvent();
    const { error } = await receiver.handle(event, 'push');
    ends[0]?.reject(signals[0]?.reason);
    await receiver.close();
    const lastError = `ERR_HANDLER_TIMEOUT: ${error?.message}`;
    expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', lastError });
  });

  test('is waited for by close until its lease lapses; its later end changes nothing that another process did', async () => {
    const { receiver, inbox, lines, ends, codeOf } = setUpOverdue({ leaseMs: 10 });
    const event = anEvent();
    await receiver.handle(event, 'push');
    await until(() =>
      lines.some((line) => /ERR_LEASE_LOST: The handler is still running although the lease/.test(line)),
    );
    await until(async () => (await codeOf(event)) !== 'ERR_EVENT_BUSY');
    expect(ends).toHaveLength(2);
    ends[0]?.resolve();
    await settled();
    expect(await inbox.find(event.id)).toMatchObject({ state: 'leased', attempts: 2 });
    await receiver.close();
    ends[1]?.reject(new Error('after close'));
    await settled();
  });
});

test('an overdue handler is reported to onOutcome, whose failure is logged under its name', async () => {
  const gate = deferred();
  const { receiver, lines } = setUp(() => gate.promise, {
    handlerTimeoutMs: 5,
    onOutcome: ({ kind }) => {
      if (kind === 'handled') throw new Error('the observer');
    },
  });
  await receiver.handle(anEvent(), 'push');
  gate.resolve();
  await receiver.close();
  expect(lines.join()).toMatch(/onOutcome threw.*the observer/s);
});
