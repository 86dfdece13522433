import {
  createReceiver,
  EventError,
  type HandlerContext,
  type Inbox,
  type InboxOperations,
  memoryInbox,
  type Outcome,
  PermanentError,
  type ReceiverOptions,
  toWebhookResponse,
} from 'stablehooks';
import { describe, expect, test, vi } from 'vitest';
import * as z from 'zod/mini';
import { anEvent, deferred, secret } from './delivery.js';

const push = 'push';

type Handler = NonNullable<ReceiverOptions['handlers']['transfer.settled']>;

function setUp(handler: Handler, options: Partial<ReceiverOptions> = {}) {
  const inbox = memoryInbox();
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
  return { receiver, inbox, outcomes, lines };
}

const HOUR_MS = 3_600_000;

/** The memory inbox, vouched durable, so that rules of durable inboxes show without a database. */
function durable(clock?: { readonly now: number }): Inbox & InboxOperations {
  return { ...memoryInbox(clock && { runtime: { now: () => clock.now } }), durable: true };
}

describe('a handler that fails', () => {
  test.each<[string, Handler]>([
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
  ])('a handler that %s is failed, and runs again at the next delivery', async (_name, fail) => {
    let calls = 0;
    const { receiver, inbox } = setUp((event, context) => {
      calls += 1;
      if (calls === 1) return fail(event, context);
    });
    const event = anEvent();
    const first = await receiver.handle(event, push);
    expect(first).toMatchObject({ kind: 'failed', attempt: 1, error: { code: 'ERR_HANDLER_FAILED' } });
    expect(first.error?.message).toContain('throw PermanentError if that cannot help');
    expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', attempts: 1 });
    expect(await receiver.handle(event, push)).toMatchObject({ kind: 'handled', attempt: 2 });
    expect(await receiver.handle(event, push)).toMatchObject({ kind: 'duplicate' });
    expect(calls).toBe(2);
  });

  test('the error of a handler is the cause of the outcome error', async () => {
    const own = new Error('no');
    const outcome = await setUp(() => Promise.reject(own)).receiver.handle(anEvent(), push);
    expect(outcome.error?.cause).toBe(own);
  });

  test('a handler that throws PermanentError is dead-lettered and answered 200, and does not run again', async () => {
    const thrown = new PermanentError('account closed', { cause: new Error('410 Gone') });
    const handler = vi.fn<Handler>(() => Promise.reject(thrown));
    const { receiver, inbox } = setUp(handler);
    const event = anEvent();
    const outcome = await receiver.handle(event, push);
    expect(outcome).toMatchObject({ kind: 'dead', error: { code: 'ERR_HANDLER_PERMANENT' } });
    expect(outcome.error).toBe(thrown);
    expect(toWebhookResponse(outcome).status).toBe(200);
    expect(await receiver.handle(event, push)).toEqual({ kind: 'dead', origin: 'push', event });
    expect(handler).toHaveBeenCalledOnce();
    expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_PERMANENT: account closed');
  });

  test('a handler that throws another error of this package is failed, whatever that error is', async () => {
    const elsewhere = new EventError('ERR_EVENT_MALFORMED', 'a file that the handler reads');
    const outcome = await setUp(() => Promise.reject(elsewhere)).receiver.handle(anEvent(), push);
    expect(outcome).toMatchObject({
      kind: 'failed',
      error: { code: 'ERR_HANDLER_FAILED', cause: elsewhere },
    });
    expect(toWebhookResponse(outcome).status).toBe(500);
  });

  test('a handler that throws PermanentError of another copy of the package is dead-lettered', async () => {
    const other = Object.assign(new Error('closed'), { code: 'ERR_HANDLER_PERMANENT' });
    const outcome = await setUp(() => Promise.reject(other)).receiver.handle(anEvent(), push);
    expect(outcome).toMatchObject({ kind: 'dead', error: { name: 'PermanentError', cause: other } });
  });

  test('an event whose handler fails maxAttempts times is dead-lettered in a durable inbox', async () => {
    const clock = { now: 0 };
    const inbox = durable(clock);
    const handler = vi.fn<Handler>(() => Promise.reject(new Error('no')));
    const { receiver } = setUp(handler, { inbox, maxAttempts: 3 });
    const event = anEvent();
    const kinds = [];
    for (let attempt = 1; attempt <= 4; attempt++) {
      kinds.push((await receiver.handle(event, push)).kind);
      clock.now += HOUR_MS;
    }
    expect(kinds).toEqual(['failed', 'failed', 'dead', 'dead']);
    expect(handler).toHaveBeenCalledTimes(3);
    expect((await inbox.find(event.id))?.lastError).toBe('ERR_HANDLER_FAILED: no');
  });

  test('25 replays of one captured delivery do not kill an event, and the retry after the recovery is handled', async () => {
    const clock = { now: 0 };
    const inbox = durable(clock);
    let down = true;
    const handler = vi.fn<Handler>(() => (down ? Promise.reject(new Error('ledger down')) : undefined));
    const { receiver } = setUp(handler, { inbox });
    const event = anEvent();
    const outcomes = [];
    for (let replay = 0; replay < 26; replay++) outcomes.push(await receiver.handle(event, push));
    expect(handler).toHaveBeenCalledOnce();
    expect(outcomes[0]).toMatchObject({ kind: 'failed', attempt: 1 });
    const [last = outcomes[0]] = outcomes.slice(-1);
    expect(last).toMatchObject({ kind: 'busy', error: { code: 'ERR_EVENT_NOT_DUE' } });
    expect(last && toWebhookResponse(last)).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    down = false;
    clock.now += 1_000;
    expect(await receiver.handle(event, push)).toMatchObject({ kind: 'handled', attempt: 2 });
  });

  test('dead-lettering takes the full backoff: 24 waits of up to an hour, half of that at least', async () => {
    const clock = { now: 0 };
    const inbox = durable(clock);
    const { receiver } = setUp(() => Promise.reject(new Error('no')), { inbox });
    const event = anEvent();
    for (;;) {
      const { kind, error } = await receiver.handle(event, push);
      if (kind === 'dead') break;
      if (kind === 'busy') clock.now += error.retryAfterMs;
    }
    expect(clock.now).toBeGreaterThan(6 * HOUR_MS);
  });

  test.each<[string, () => unknown]>([
    ['an error whose message is a symbol', () => Object.assign(new Error(), { message: Symbol('no') })],
    ['an object without a prototype', () => Object.create(null)],
    [
      'an error whose message cannot be read',
      () =>
        Object.defineProperty(new Error(), 'message', {
          get() {
            throw new Error('unreadable');
          },
        }),
    ],
    [
      'a PermanentError whose message cannot be read',
      () =>
        Object.defineProperty(new PermanentError('no'), 'message', {
          get() {
            throw new Error('unreadable');
          },
        }),
    ],
    [
      'a PermanentError whose message is a symbol',
      () => Object.assign(new PermanentError(''), { message: Symbol('no') }),
    ],
    [
      'an error whose code cannot be read',
      () =>
        Object.defineProperty(new Error('no'), 'code', {
          get() {
            throw new Error('unreadable');
          },
        }),
    ],
    [
      'a proxy that throws at everything',
      () => {
        const refuse = () => {
          throw new Error('unreadable');
        };
        return new Proxy({}, { get: refuse, has: refuse, getPrototypeOf: refuse });
      },
    ],
    [
      'an error that is its own cause',
      () => {
        const error = new Error('no');
        return Object.assign(error, { cause: error });
      },
    ],
  ])('a handler that throws %s fails its event, which is not left leased', async (_name, toThrown) => {
    const { receiver, inbox } = setUp(() => Promise.reject(toThrown()));
    const event = anEvent();
    const { kind } = await receiver.handle(event, push);
    expect(['failed', 'dead']).toContain(kind);
    expect(await inbox.find(event.id)).toMatchObject({ state: kind });
  });

  test('the memory inbox does not dead-letter an event by its attempts', async () => {
    const { receiver } = setUp(() => Promise.reject(new Error('no')), { maxAttempts: 2 });
    const event = anEvent();
    for (let attempt = 1; attempt <= 5; attempt++) {
      expect(await receiver.handle(event, push)).toMatchObject({ kind: 'failed', attempt });
    }
  });

  test('an event that ends the process in each attempt is dead-lettered after maxAttempts, without another run', async () => {
    const handler = vi.fn<Handler>();
    const inbox = durable();
    const { receiver } = setUp(handler, { inbox, maxAttempts: 2 });
    const event = anEvent();
    for (const _ of [1, 2]) await inbox.claim(event, { leaseMs: 0, origin: 'push' });
    expect(await receiver.handle(event, push)).toMatchObject({ kind: 'dead', attempt: 3 });
    expect(handler).not.toHaveBeenCalled();
    expect((await inbox.find(event.id))?.lastError).toMatch(
      /^ERR_HANDLER_FAILED: Attempt 2 at transfer\.settled recorded no result: .*Its effect may have happened/,
    );
  });

  test('an event whose last attempt recorded no result says nothing of those before it, which failed', async () => {
    const clock = { now: 0 };
    const inbox = durable(clock);
    const { receiver } = setUp(() => Promise.reject(new Error('no')), { inbox, maxAttempts: 2 });
    const event = anEvent();
    expect((await receiver.handle(event, push)).kind).toBe('failed');
    clock.now += HOUR_MS;
    await inbox.claim(event, { leaseMs: 10, origin: 'push' });
    clock.now += HOUR_MS;
    const { kind, error } = await receiver.handle(event, push);
    expect(kind).toBe('dead');
    expect(error?.message).toContain('Attempt 2 at transfer.settled recorded no result');
    expect(error?.message).not.toMatch(/attempts|none finished/);
    // How `requeueAll` of the docs finds it.
    const record = await inbox.find(event.id);
    expect(record?.history.map(({ result }) => result)).toEqual(['failed', 'lapsed', 'dead']);
  });
});

test('a copy of the handler context by spread contains the signal', async () => {
  let copy: Partial<HandlerContext> = {};
  const receiver = createReceiver({
    secret: 's',
    handlers: {
      'transfer.settled': (_event, context) => {
        copy = { ...context };
      },
    },
  });
  await receiver.handle(anEvent(), 'pull');
  expect(copy).toEqual({ tx: undefined, attempt: 1, origin: 'pull', signal: expect.any(AbortSignal) });
});

describe('a handler that is slow', () => {
  test('a handler that exceeds handlerTimeoutMs is failed, its signal aborts, and its late rejection is not unhandled', async () => {
    const late = deferred();
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    let reason: unknown;
    const { receiver } = setUp(
      async (_event, { signal }) => {
        await late.promise;
        reason = signal.reason;
        throw new Error('late');
      },
      { handlerTimeoutMs: 5 },
    );
    const outcome = await receiver.handle(anEvent(), push);
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_HANDLER_TIMEOUT' } });
    late.resolve();
    await new Promise(setImmediate);
    expect(reason).toBe(outcome.error);
    expect(unhandled).not.toHaveBeenCalled();
    process.off('unhandledRejection', unhandled);
  });

  test('a handler that outlives its lease while another process claims the event is busy and does not complete it', async () => {
    let now = 0;
    const inbox = memoryInbox({ runtime: { now: () => now } });
    const { receiver } = setUp(
      async (event) => {
        // As if leaseMs had passed meanwhile, and another process had come.
        now += 120_000;
        await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
      },
      { inbox },
    );
    const outcome = await receiver.handle(anEvent(), push);
    expect(outcome).toMatchObject({ kind: 'busy', error: { code: 'ERR_LEASE_LOST' } });
    expect(toWebhookResponse(outcome).status).toBe(503);
  });
});

test('a handler that fails after another process has claimed its event is busy, and the other attempt goes on', async () => {
  let now = 0;
  const inbox = memoryInbox({ runtime: { now: () => now } });
  const { receiver } = setUp(
    async (event) => {
      now += 120_000;
      await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
      throw new PermanentError('too late to say so');
    },
    { inbox },
  );
  const event = anEvent();
  const outcome = await receiver.handle(event, push);
  expect(outcome).toMatchObject({ kind: 'busy', error: { code: 'ERR_LEASE_LOST', retryAfterMs: 1_000 } });
  expect(await inbox.find(event.id)).toMatchObject({ state: 'leased', attempts: 2, lastError: null });
});

describe('simultaneous deliveries of one event', () => {
  test('simultaneous deliveries of one event run the handler once; the others are busy with a retry time', async () => {
    const entered = deferred();
    const finish = deferred();
    const handler = vi.fn<Handler>(async () => {
      entered.resolve();
      await finish.promise;
    });
    const { receiver } = setUp(handler);
    const event = anEvent();
    const first = receiver.handle(event, push);
    await entered.promise;
    const second = await receiver.handle(event, push);
    expect(second).toMatchObject({ kind: 'busy', error: { code: 'ERR_EVENT_BUSY' } });
    expect(Number(toWebhookResponse(second).headers['retry-after'])).toBeLessThanOrEqual(60);
    finish.resolve();
    expect((await first).kind).toBe('handled');
    expect(handler).toHaveBeenCalledOnce();
  });
});

describe('payload schemas', () => {
  const Settled = z.object({ amount: z.string(), at: z.optional(z.pipe(z.string(), z.transform(Number))) });

  test('the handler gets the output of the payload schema, and the inbox stores the event as it arrived', async () => {
    const inbox = memoryInbox();
    const got = deferred<unknown>();
    const receiver = createReceiver({
      secret,
      inbox,
      payloads: { 'transfer.settled': Settled },
      handlers: { 'transfer.settled': (event) => got.resolve(event.payload) },
    });
    const event = anEvent({ payload: { amount: '1.10', at: '7', more: true } });
    expect((await receiver.handle(event, push)).kind).toBe('handled');
    expect(await got.promise).toEqual({ amount: '1.10', at: 7 });
    expect((await inbox.find(event.id))?.event).toEqual(event);
  });

  test('a payload that does not match its schema is failed and stored; the error names fields, not values', async () => {
    const inbox = memoryInbox();
    const receiver = createReceiver({
      secret,
      inbox,
      payloads: { 'transfer.settled': Settled },
      handlers: { 'transfer.settled': () => undefined },
      onOutcome: () => undefined,
    });
    const event = anEvent({ payload: { amount: { planted: 'planted' } } });
    const outcome = await receiver.handle(event, push);
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_PAYLOAD_INVALID' } });
    expect(outcome.error?.message).toContain('payload.amount');
    expect(outcome.error?.message).not.toContain('planted');
    expect(await inbox.find(event.id)).toMatchObject({ state: 'failed', event });
  });

  test('the keys of a payload that is a map do not appear in the error', async () => {
    const Table = z.object({ balances: z.record(z.string(), z.object({ amount: z.string() })) });
    const receiver = createReceiver({
      secret,
      payloads: { 'transfer.settled': Table },
      handlers: { 'transfer.settled': () => undefined },
      onOutcome: () => undefined,
    });
    const event = anEvent({ payload: { balances: { '4111-1111-1111-1111': { amount: 5 }, 'k\0': 1 } } });
    const { error } = await receiver.handle(event, push);
    expect(error).toMatchObject({ fields: ['payload.balances.*.amount', 'payload.balances.*'] });
    expect(error?.message).not.toMatch(/4111|\0/);
  });

  test('the error names a field of a list by its index, also when the schema gives the parts of its path as objects', async () => {
    const issues = [
      { message: 'no', path: ['items', 10, 'amount'] },
      { message: 'no', path: [{ key: 'items' }, { key: 123_456 }] },
      { message: 'no' },
    ];
    const receiver = createReceiver({
      secret,
      payloads: { 'transfer.settled': { '~standard': { validate: () => ({ issues }) } } },
      handlers: { 'transfer.settled': () => undefined },
      onOutcome: () => undefined,
    });
    expect((await receiver.handle(anEvent(), push)).error).toMatchObject({
      fields: ['payload.items.10.amount', 'payload.items.123456', 'payload'],
    });
  });

  test('a payload schema that throws is failed like a handler', async () => {
    const receiver = createReceiver({
      secret,
      payloads: {
        'transfer.settled': { '~standard': { validate: () => Promise.reject(new Error('schema')) } },
      },
      handlers: { 'transfer.settled': () => undefined },
      onOutcome: () => undefined,
    });
    expect((await receiver.handle(anEvent(), push)).error?.code).toBe('ERR_HANDLER_FAILED');
  });
});

describe('an inbox that fails', () => {
  const down = () => Promise.reject(new Error('connection refused'));

  test.each(['claim', 'complete'] as const)(
    'an inbox that fails at %s makes the delivery unavailable, with the error as the cause',
    async (step) => {
      const { receiver } = setUp(() => undefined, { inbox: { ...memoryInbox(), [step]: down } });
      const outcome = await receiver.handle(anEvent(), push);
      expect(outcome).toMatchObject({ kind: 'unavailable', error: { code: 'ERR_INBOX_FAILED' } });
      expect(outcome.error?.cause).toMatchObject({ message: 'connection refused' });
      expect(toWebhookResponse(outcome).status).toBe(503);
    },
  );

  test('a failure that the inbox cannot record is not answered 200, not even a PermanentError', async () => {
    const { receiver } = setUp(() => Promise.reject(new PermanentError('closed')), {
      inbox: { ...memoryInbox(), fail: down },
    });
    expect((await receiver.handle(anEvent(), push)).kind).toBe('unavailable');
  });

  test('an inbox that throws synchronously does not make receive, accept or handle throw', async () => {
    const { receiver } = setUp(() => undefined, {
      inbox: {
        ...memoryInbox(),
        claim: () => {
          throw new Error('bug in a store');
        },
      },
    });
    const outcome = await receiver.handle(anEvent(), push);
    expect(toWebhookResponse(outcome).status).toBeGreaterThanOrEqual(500);
  });
});

describe('close', () => {
  test('close waits for running handlers and refuses new deliveries', async () => {
    const entered = deferred();
    const finish = deferred();
    const { receiver } = setUp(async () => {
      entered.resolve();
      await finish.promise;
    });
    const running = receiver.handle(anEvent(), push);
    await entered.promise;
    let closed = false;
    const closing = receiver.close().then(() => {
      closed = true;
    });
    const refused = await receiver.handle(anEvent(), push);
    expect(refused).toMatchObject({ kind: 'busy', error: { code: 'ERR_RECEIVER_CLOSED' } });
    expect(toWebhookResponse(refused).status).toBe(503);
    expect(closed).toBe(false);
    finish.resolve();
    expect((await running).kind).toBe('handled');
    await closing;
    await receiver.close();
  });

  test('close waits for each of several handlers that run', async () => {
    const gates = [deferred(), deferred()];
    let started = 0;
    const { receiver } = setUp(() => {
      started += 1;
      return gates[started - 1]?.promise;
    });
    const running = gates.map(() => receiver.handle(anEvent(), push));
    const closed = vi.fn();
    const closing = receiver.close().then(closed);
    gates[0]?.resolve();
    await running[0];
    await new Promise(setImmediate);
    expect(closed).not.toHaveBeenCalled();
    gates[1]?.resolve();
    await closing;
  });
});

test('close ends after leaseMs when the inbox has stopped answering', async () => {
  const asked = deferred();
  const inbox = {
    ...memoryInbox(),
    claim: () => {
      asked.resolve();
      return new Promise<never>(() => undefined);
    },
  };
  const { receiver } = setUp(() => undefined, { inbox, leaseMs: 10, handlerTimeoutMs: 5 });
  receiver.handle(anEvent(), push);
  await asked.promise;
  await receiver.close();
});

describe('a handler that outlives handlerTimeoutMs', () => {
  /** A receiver whose handler ends when the test says so, and ignores its signal. */
  function setUpLate(options: Partial<ReceiverOptions> = {}) {
    const ends: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
    const handler = vi.fn<Handler>(
      () => new Promise((resolve, reject) => void ends.push({ resolve, reject })),
    );
    const parts = setUp(handler, { handlerTimeoutMs: 5, ...options });
    return { ...parts, handler, ends };
  }

  test('is not started beside itself: the event stays claimed, and is done when the handler ends', async () => {
    const { receiver, inbox, lines, outcomes, handler, ends } = setUpLate();
    const event = anEvent();
    expect(await receiver.handle(event, push)).toMatchObject({
      kind: 'failed',
      error: { code: 'ERR_HANDLER_TIMEOUT' },
    });
    for (let replay = 0; replay < 5; replay++) {
      expect(await receiver.handle(event, push)).toMatchObject({
        kind: 'busy',
        error: { code: 'ERR_EVENT_BUSY' },
      });
    }
    expect((await receiver.redrive()).handled).toBe(0);
    expect(lines[0]).toMatch(/still running after 5 ms.*Pass `signal`/);
    ends[0]?.resolve();
    await expect.poll(() => inbox.find(event.id)).toMatchObject({ state: 'done' });
    expect(await receiver.handle(event, push)).toMatchObject({ kind: 'duplicate' });
    expect(handler).toHaveBeenCalledOnce();
    await expect.poll(() => lines.at(-1)).toMatch(/handled evt_\d+: its handler ended after/);
    expect(outcomes.map(({ kind }) => kind)).toContain('handled');
  });

  test('fails its event when it fails, and the failure is logged', async () => {
    const { receiver, inbox, lines, ends } = setUpLate();
    const event = anEvent();
    await receiver.handle(event, push);
    ends[0]?.reject(new Error('too late'));
    await expect
      .poll(() => inbox.find(event.id))
      .toMatchObject({ state: 'failed', lastError: 'ERR_HANDLER_FAILED: too late' });
    await expect.poll(() => lines.at(-1)).toMatch(/failed .*too late/s);
  });

  test('is reported to onOutcome, whose failure is logged under its name', async () => {
    const { receiver, lines, ends } = setUpLate({
      onOutcome: ({ kind }) => {
        if (kind === 'handled') throw new Error('the observer');
      },
    });
    await receiver.handle(anEvent(), push);
    ends[0]?.resolve();
    await receiver.close();
    expect(lines.at(-1)).toMatch(/onOutcome .*the observer/s);
  });

  test('and throws the reason of its signal has failed by its time limit', async () => {
    const end = deferred();
    const { receiver, inbox } = setUp(
      async (_event, { signal }) => {
        await end.promise;
        signal.throwIfAborted();
      },
      { handlerTimeoutMs: 5 },
    );
    const event = anEvent();
    const { error } = await receiver.handle(event, push);
    end.resolve();
    await receiver.close();
    expect(await inbox.find(event.id)).toMatchObject({
      state: 'failed',
      lastError: `ERR_HANDLER_TIMEOUT: ${error?.message}`,
    });
  });

  test('is waited for by close, at most until its lease lapses', async () => {
    const { receiver, inbox, ends } = setUpLate();
    const event = anEvent();
    await receiver.handle(event, push);
    const closing = receiver.close();
    ends[0]?.resolve();
    await closing;
    expect(await inbox.find(event.id)).toMatchObject({ state: 'done' });

    const hanging = setUpLate({ leaseMs: 10 });
    await hanging.receiver.handle(anEvent(), push);
    await hanging.receiver.close();
    expect(hanging.lines.at(-1)).toMatch(/ERR_LEASE_LOST: The handler still runs after its lease of 10 ms/);
    hanging.ends[0]?.resolve();
    await expect.poll(() => hanging.lines.at(-1)).toMatch(/its handler ended after handlerTimeoutMs/);
  });

  test('can overlap another run only once its lease has lapsed, and then cannot complete the event', async () => {
    const { receiver, inbox, handler, ends } = setUpLate({ leaseMs: 10 });
    const event = anEvent();
    await receiver.handle(event, push);
    await expect
      .poll(async () => {
        await receiver.handle(event, push);
        return handler.mock.calls.length;
      })
      .toBe(2);
    ends[0]?.resolve();
    await new Promise(setImmediate);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'leased', attempts: 2 });
    ends[1]?.resolve();
    await receiver.close();
  });

  test('fails its event in a transaction, which is rolled back at the limit, whatever the handler does later', async () => {
    const rolledBack: unknown[] = [];
    const base = memoryInbox();
    const inbox: Inbox & InboxOperations = {
      ...base,
      transaction: async (lease, effect) => {
        try {
          await effect(undefined);
        } catch (error) {
          rolledBack.push(error);
          throw error;
        }
        return base.complete(lease);
      },
    };
    const { receiver, ends } = setUpLate({ inbox });
    const event = anEvent();
    const outcome = await receiver.handle(event, push);
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'ERR_HANDLER_TIMEOUT' } });
    expect(rolledBack).toEqual([outcome.error]);
    expect(await inbox.find(event.id)).toMatchObject({ state: 'leased' });
    ends[0]?.resolve();
    await expect
      .poll(() => inbox.find(event.id))
      .toMatchObject({ state: 'failed', lastError: expect.stringContaining('ERR_HANDLER_TIMEOUT') });
    await receiver.close();
  });

  test('is answered at the limit also while the rollback of its transaction waits', async () => {
    const rollback = deferred();
    const base = memoryInbox();
    const inbox: Inbox & InboxOperations = {
      ...base,
      transaction: async (_lease, effect) => {
        await effect(undefined).catch(() => undefined);
        await rollback.promise;
        return false;
      },
    };
    const { receiver, ends } = setUpLate({ inbox });
    expect(await receiver.handle(anEvent(), push)).toMatchObject({
      kind: 'failed',
      error: { code: 'ERR_HANDLER_TIMEOUT' },
    });
    rollback.resolve();
    ends[0]?.resolve();
    await receiver.close();
  });
});
