import {
  createReceiver,
  EVENT_TYPES,
  type Inbox,
  memoryInbox,
  type ReceiverOptions,
  type UnknownEvent,
  type WebhookEvent,
} from 'stablehooks';
import {
  createPoller,
  type PollerClient,
  type PollerOptions,
  type PollReport,
  readPollState,
} from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { createSandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, onTestFinished, test, vi } from 'vitest';

const MINUTE_MS = 60_000;

/** A sandbox that pushes nothing, and a poller on its manual clock. */
async function setUp({
  handle = () => undefined,
  onUnknown = () => undefined,
  sandbox: sandboxOptions,
  poller: pollerOptions,
  receiver: receiverOptions,
}: {
  readonly handle?: (event: WebhookEvent) => void | Promise<void>;
  readonly onUnknown?: (event: UnknownEvent) => void;
  readonly sandbox?: SandboxOptions;
  readonly poller?: Partial<PollerOptions>;
  readonly receiver?: Pick<ReceiverOptions, 'orderingKey' | 'handlerTimeoutMs' | 'leaseMs' | 'onOutcome'>;
} = {}) {
  const sandbox = createSandbox({ clock: 'manual', seed: 7, ...sandboxOptions });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen(0);
  const now = () => sandbox.clock.now();
  const inbox = memoryInbox({ runtime: { now } });
  const took: string[] = [];
  const handler = async (event: WebhookEvent) => {
    await handle(event);
    took.push(event.id);
  };
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const logger = { warn: log, error: log };
  const receiver = createReceiver({
    secret: sandbox.secret,
    inbox,
    onUnknown,
    logger,
    ...receiverOptions,
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, handler])),
  });
  const client = createClient({ baseUrl: url, token: sandbox.token, retries: 0 });
  const options = { client, receiver, runtime: { now }, since: new Date(now()), logger, ...pollerOptions };
  const poller = createPoller(options);
  onTestFinished(() => poller.stop());
  return { sandbox, client, inbox, receiver, took, options, poller, now, lines };
}

type SetUp = Awaited<ReturnType<typeof setUp>>;

/** Fires events a second apart, the five types in turn. */
async function fire({ sandbox }: Pick<SetUp, 'sandbox'>, count: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index++) {
    ids.push(sandbox.emit(EVENT_TYPES[index % EVENT_TYPES.length] ?? 'accept.confirmed').id);
    await sandbox.clock.advance(1_000);
  }
  return ids;
}

function codes(report: PollReport): readonly string[] {
  return report.problems.map(({ code }) => code);
}

test('one poll runs the missed events of one ordering key one after the other, and reports each as recovered', async () => {
  let running = 0;
  const it = await setUp({
    receiver: { orderingKey: () => 'one account' },
    handle: async () => {
      running += 1;
      expect(running).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    },
  });
  const ids = await fire(it, 20);
  const report = await it.poller.pollOnce();
  expect(new Set(it.took)).toEqual(new Set(ids));
  expect(it.took).toHaveLength(20);
  expect(report.problems).toEqual([]);
  expect(report).toMatchObject({ handled: 20, recovered: 20, failed: 0 });
  expect(new Set(report.ids.recovered)).toEqual(new Set(ids));
});

test('events that were never pushed are found, handled once, oldest first, and proven to be all', async () => {
  const it = await setUp();
  const ids = await fire(it, 20);
  const report = await it.poller.pollOnce();
  expect(it.took).toEqual(ids);
  expect(report).toMatchObject({
    proven: true,
    fetched: 20,
    new: 20,
    recovered: 20,
    handled: 20,
    requests: 1,
  });
  expect(report.verdicts).toMatchObject([
    { type: null, size: 20, limit: 50, verdict: 'complete', reason: null },
  ]);
  expect(report.ids).toMatchObject({ new: expect.arrayContaining([...ids]), late: [], failed: [] });
  expect([...report.ids.recovered].sort()).toEqual([...ids].sort());
  expect(report.diagnosis).toMatch(/^Nothing is proven yet/);
  expect(JSON.parse(JSON.stringify(report))).toEqual(report);

  const second = await it.poller.pollOnce();
  expect(second).toMatchObject({ proven: true, fetched: 20, new: 0, handled: 0, duplicates: 20, failed: 0 });
  expect(it.took).toHaveLength(20);
});

test('the handler of a missed event receives the text that the service wrote, and the inbox keeps it', async () => {
  const text =
    '{ "id":"evt_1","type":"redeem.failed","created_at":"2026-03-01T12:00:00Z","payload":{"amount":1e999, "n":9007199254740993} }';
  const client = createClient({
    baseUrl: 'http://service.test',
    token: 'token',
    fetch: async () => new Response(`[${text}]`),
  });
  const inbox = memoryInbox();
  const received: unknown[] = [];
  const receiver = createReceiver({
    secret: 'secret',
    inbox,
    handlers: { 'redeem.failed': (_event, { json, origin }) => void received.push(json, origin) },
  });
  const poller = createPoller({ client, receiver, backfill: true });
  expect(await poller.pollOnce()).toMatchObject({ new: 1, recovered: 1, handled: 1 });
  expect(received).toEqual([text, 'redrive']);
  expect(await inbox.find('evt_1')).toMatchObject({ origin: 'pull', state: 'done' });
});

test('the watermark starts at the first poll and follows the clock at a distance of lagMs', async () => {
  const it = await setUp();
  const first = new Date(it.now()).toISOString();
  expect((await it.poller.pollOnce()).watermark).toBe(first);
  await it.sandbox.clock.advance(10 * MINUTE_MS);
  const expected = new Date(it.now() - 5 * MINUTE_MS).toISOString();
  expect((await it.poller.pollOnce()).watermark).toBe(expected);
  // When our own clock jumps, the watermark does not move back, and the service's clock keeps it from moving too far.
  for (const jumpMs of [-4 * MINUTE_MS, 60 * MINUTE_MS]) {
    const jumpy = createPoller({ ...it.options, runtime: { now: () => it.now() + jumpMs } });
    const report = await jumpy.pollOnce();
    expect(report).toMatchObject({ proven: true, watermark: expected });
    expect(codes(report)).toEqual(jumpMs > 0 ? ['ERR_CLOCK_BEHIND'] : []);
    expect(report.doubtful).toBe(jumpMs > 0);
  }
});

test('a full list that is oldest first is unproven, and the events that it lacks are found by type', async () => {
  const it = await setUp({ sandbox: { faults: { listOrder: 'oldest', listCap: 50 } } });
  const since = it.now();
  const gaps: unknown[] = [];
  const poller = createPoller({
    ...it.options,
    since: new Date(since - 1),
    onGap: (gap) => void gaps.push(gap),
  });
  await fire(it, 240);
  await it.sandbox.clock.advance(10 * MINUTE_MS);
  const truncated = await poller.pollOnce();
  expect(truncated).toMatchObject({ proven: true, new: 240, recovered: 240, gaps: [] });
  expect(truncated.verdicts[0]).toMatchObject({ type: null, size: 50, verdict: 'unproven' });

  await fire(it, 60);
  await it.sandbox.clock.advance(10 * MINUTE_MS);
  const full = await poller.pollOnce();
  expect(full).toMatchObject({
    proven: false,
    watermark: new Date(it.now() - 5 * MINUTE_MS).toISOString(),
    gaps: [
      {
        state: 'open',
        types: EVENT_TYPES,
        from: truncated.watermark,
        until: full.watermark,
        reason: 'oldest-first',
      },
    ],
  });
  expect(full.diagnosis).toContain('Ask the service');
  // The gap becomes longer, and is told once.
  await it.sandbox.clock.advance(10 * MINUTE_MS);
  const later = await poller.pollOnce();
  expect(later).toMatchObject({ proven: false, gapsOpened: [], gaps: [{ from: truncated.watermark }] });
  expect(later.gaps[0]?.until).toBe(later.watermark);
  expect(gaps).toEqual(full.gaps);
  it.sandbox.faults.set({ listCap: 1_000 });
  // A new poller tries to close what is open.
  const closed = await createPoller({ ...it.options, onGap: (gap) => void gaps.push(gap) }).pollOnce();
  expect(closed).toMatchObject({ gaps: [], gapsClosed: [{ state: 'closed', types: EVENT_TYPES }] });
  expect(gaps).toEqual([...full.gaps, ...closed.gapsClosed]);
});

test('an event that push brought is a duplicate, and a listed-as-delivered event that push never brought is counted', async () => {
  const it = await setUp({ sandbox: { faults: { listWrongDelivered: 1 } } });
  const [pushed] = await fire(it, 3);
  const event = it.sandbox.events({ order: 'oldest' })[0];
  if (event === undefined) throw new Error('Nothing was fired.');
  await it.receiver.accept({ ...event, payload: { ...event.payload } }, 'push');
  const report = await it.poller.pollOnce();
  expect(report).toMatchObject({ fetched: 3, new: 2, recovered: 2, deliveredButUnseen: 2, duplicates: 1 });
  expect((await it.inbox.find(pushed ?? ''))?.origin).toBe('push');
});

test('an event of a type without a handler is recorded as ignored and counts as recovered, and is a duplicate afterwards', async () => {
  const it = await setUp();
  const [id = ''] = await fire(it, 1);
  const receiver = createReceiver({ secret: it.sandbox.secret, inbox: it.inbox, handlers: {} });
  const poller = createPoller({ ...it.options, receiver });
  expect(await poller.pollOnce()).toMatchObject({
    proven: true,
    new: 1,
    recovered: 1,
    handled: 0,
    failed: 0,
  });
  expect(await it.inbox.find(id)).toMatchObject({ state: 'done', attempts: 0 });
  expect(await poller.pollOnce()).toMatchObject({ new: 0, recovered: 0, duplicates: 1 });
});

test('an event that fails does not stop the others, waits until it is due, and runs even if the list no longer shows it', async () => {
  let down = true;
  const failing = new Set<string>();
  const it = await setUp({
    handle: ({ id, type }) => {
      if (down && type === 'transfer.failed') {
        failing.add(id);
        throw new Error('the ledger is down');
      }
    },
  });
  await fire(it, 10);
  const first = await it.poller.pollOnce();
  expect(first).toMatchObject({ proven: true, handled: 8, failed: 2, recovered: 10 });
  expect(first.problems.map(({ code, id }) => [code, failing.has(id ?? '')])).toEqual([
    ['ERR_HANDLER_FAILED', true],
    ['ERR_HANDLER_FAILED', true],
  ]);
  expect(JSON.stringify(first)).not.toContain('ledger');

  // Not due yet, so the list does not use up its attempts.
  expect(await it.poller.pollOnce()).toMatchObject({ handled: 0, failed: 0, duplicates: 8 });
  down = false;
  it.sandbox.faults.set({ listLagMs: 3_600_000 });
  await it.sandbox.clock.advance(MINUTE_MS);
  const last = await it.poller.pollOnce();
  expect(last).toMatchObject({ fetched: 0, handled: 2, redriven: { handled: 2 } });
  expect(it.took).toHaveLength(10);
});

test('an event of an unknown type is parked, counted as new, reported once, and does not prevent a proof', async () => {
  const reported: string[] = [];
  const it = await setUp({ onUnknown: (event) => void reported.push(event.id) });
  const { id } = it.sandbox.emit('wallet.frozen', { reason: 'none' });
  const report = await it.poller.pollOnce();
  expect(report).toMatchObject({ proven: true, fetched: 1, new: 1, recovered: 0, handled: 0, failed: 0 });
  expect((await it.inbox.find(id))?.state).toBe('parked');
  await it.poller.pollOnce();
  expect(reported).toEqual([id]);
});

test('a failing API is reported, the watermark stays, and the next poll finds the events', async () => {
  const it = await setUp();
  const { watermark } = await it.poller.pollOnce();
  await fire(it, 3);
  await it.sandbox.clock.advance(10 * MINUTE_MS);
  it.sandbox.faults.set({ apiServerError: 1 });
  const failed = await it.poller.pollOnce();
  expect(failed).toMatchObject({ proven: false, watermark, fetched: 0, requests: 1 });
  expect(codes(failed)).toEqual(['ERR_API_STATUS']);
  expect(failed.verdicts).toMatchObject([
    { type: null, size: 0, limit: 50, verdict: 'failed', reason: 'no-answer' },
  ]);
  it.sandbox.faults.set({ apiServerError: 0, apiMalformed: 1 });
  expect(codes(await it.poller.pollOnce())).toEqual(['ERR_API_RESPONSE']);
  it.sandbox.faults.clear();
  expect(await it.poller.pollOnce()).toMatchObject({ proven: true, recovered: 3 });
});

test('an inbox that fails is reported without its message', async () => {
  const it = await setUp();
  await fire(it, 3);
  const refuse = async () => {
    throw new Error('connection to postgres://user:hunter2@db failed');
  };
  for (const broken of ['leaseNote', 'readNote', 'takeDue', 'record', 'writeNote'] as const) {
    const receiver = createReceiver({
      secret: 'secret',
      inbox: { ...it.inbox, [broken]: refuse },
      handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, () => undefined])),
      logger: it.options.logger,
    });
    const report = await createPoller({ ...it.options, receiver, leaseMs: 1 }).pollOnce();
    expect(codes(report)).toContain('ERR_INBOX_FAILED');
    expect(report.proven).toBe(broken === 'takeDue');
    expect(JSON.stringify(report)).not.toContain('hunter2');
    await it.sandbox.clock.advance(1_000);
  }
});

test.each([
  ['another process has acquired the lease', async () => false, 'ERR_LEASE_LOST'],
  ['the inbox fails', async () => Promise.reject(new Error('down')), 'ERR_INBOX_FAILED'],
])('a poll whose state is not saved, because %s, reports the stored watermark', async (_, refuse, code) => {
  const it = await setUp();
  const next = async (poller = it.poller) => {
    await fire(it, 3);
    await it.sandbox.clock.advance(10 * MINUTE_MS);
    return poller.pollOnce();
  };
  const first = await next();
  const receiver = createReceiver({
    secret: 'secret',
    inbox: { ...it.inbox, writeNote: refuse },
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, () => undefined])),
    logger: it.options.logger,
  });
  const report = await next(createPoller({ ...it.options, receiver }));
  expect(codes(report)).toContain(code);
  expect(report).toMatchObject({ proven: false, handled: 3, watermark: first.watermark });
  const last = await next();
  expect(last.proven).toBe(true);
  expect(Date.parse(last.watermark ?? '')).toBeGreaterThan(Date.parse(first.watermark ?? ''));
});

/** A promise that the test resolves. */
function createSignal() {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { resolve, promise };
}

test('while one process reads the list, the poll of another is reported busy and sends no request', async () => {
  const [entered, finish] = [createSignal(), createSignal()];
  const it = await setUp();
  const client: PollerClient = {
    events: {
      async listWithProblems(query) {
        entered.resolve();
        await finish.promise;
        return it.client.events.listWithProblems(query);
      },
    },
  };
  await fire(it, 1);
  const poller = createPoller({ ...it.options, client });
  const first = poller.pollOnce();
  await entered.promise;
  const other = await createPoller(it.options).pollOnce();
  expect(other).toMatchObject({ proven: false, watermark: null, requests: 0, gaps: [] });
  expect(codes(other)).toEqual(['ERR_POLL_BUSY']);
  expect(poller.pollOnce()).toBe(first);
  finish.resolve();
  expect(await first).toMatchObject({ proven: true, handled: 1 });
});

test('a renewal that comes too late does not let a poll save over the state of the process that polled meanwhile', async () => {
  const it = await setUp();
  const otherHasPolled = createSignal();
  const [renewing, renewed] = [createSignal(), createSignal()];
  let calls = 0;
  const inbox: Inbox = {
    ...it.inbox,
    async leaseNote(...lease) {
      calls += 1;
      if (calls === 2) {
        renewing.resolve();
        await otherHasPolled.promise;
      }
      const isLeased = await it.inbox.leaseNote(...lease);
      if (calls === 2) renewed.resolve();
      return isLeased;
    },
  };
  const client: PollerClient = {
    events: {
      async listWithProblems(query) {
        await renewed.promise;
        return it.client.events.listWithProblems(query);
      },
    },
  };
  const receiver = createReceiver({ secret: 'secret', inbox, handlers: {}, logger: it.options.logger });
  await fire(it, 1);
  const slow = createPoller({ ...it.options, receiver, client, leaseMs: 10 }).pollOnce();
  await renewing.promise;
  await it.sandbox.clock.advance(10 * MINUTE_MS);
  const { watermark } = await it.poller.pollOnce();
  const saved = await readPollState(it.inbox);
  otherHasPolled.resolve();
  const report = await slow;
  expect(codes(report)).toContain('ERR_LEASE_LOST');
  expect(report).toMatchObject({ proven: false, watermark: null });
  expect(await readPollState(it.inbox)).toEqual(saved);
  expect(watermark).not.toBeNull();
});

test('while the handlers of one poll run, another process can poll and does not run their events', async () => {
  const [entered, finish] = [createSignal(), createSignal()];
  const it = await setUp({
    handle: () => {
      entered.resolve();
      return finish.promise;
    },
  });
  await fire(it, 1);
  const first = it.poller.pollOnce();
  await entered.promise;
  const other = await createPoller(it.options).pollOnce();
  expect(other).toMatchObject({ proven: true, fetched: 1, new: 0, handled: 0, waiting: 1, problems: [] });
  finish.resolve();
  expect(await first).toMatchObject({ proven: true, handled: 1, waiting: 0 });
});

test('stop waits for handlers that run and starts no more, and the next poll handles the rest', async () => {
  const [entered, finish] = [createSignal(), createSignal()];
  const it = await setUp({
    handle: () => {
      entered.resolve();
      return finish.promise;
    },
  });
  await fire(it, 20);
  const poll = it.poller.pollOnce();
  await entered.promise;
  let stopped = false;
  const stop = it.poller.stop().then(() => {
    stopped = true;
  });
  expect(stopped).toBe(false);
  finish.resolve();
  await stop;
  const report = await poll;
  expect(report).toMatchObject({ proven: true, new: 20, handled: 16, recovered: 20, waiting: 4 });
  expect(codes(report)).toEqual(['ERR_POLL_STOPPED']);
  expect(await it.poller.pollOnce()).toMatchObject({ proven: true, new: 0, handled: 4, duplicates: 16 });
  expect(it.took).toHaveLength(20);
});

test('a poll whose signal is already aborted sends no request', async () => {
  const it = await setUp();
  const report = await it.poller.pollOnce({ signal: AbortSignal.abort() });
  expect(report).toMatchObject({ proven: false, requests: 0, gaps: [] });
  expect(codes(report)).toEqual(['ERR_POLL_STOPPED']);
});

test('start polls at once and continues when an observer throws', async () => {
  const third = createSignal();
  let reports = 0;
  const it = await setUp({
    poller: {
      intervalMs: 5,
      onReport: () => {
        reports += 1;
        if (reports === 3) third.resolve();
        throw new Error('the dashboard is down');
      },
    },
  });
  it.poller.start();
  it.poller.start();
  await third.promise;
  await it.poller.stop();
  expect(it.lines.filter((line) => line.includes('onReport threw an error')).length).toBeGreaterThan(2);
  const { requests } = await it.poller.pollOnce();
  expect(requests).toBe(1);
});

test.each(['listed', 'due in the inbox'])(
  'a handler that outlives handlerTimeoutMs does not delay the next poll of a poller that was started: an event that is %s',
  async (where) => {
    const reports: PollReport[] = [];
    const { sandbox, inbox, poller } = await setUp({
      handle: () => new Promise(() => undefined),
      poller: { intervalMs: 20, backfill: true, onReport: (report) => void reports.push(report) },
      receiver: { handlerTimeoutMs: 20, leaseMs: 600_000 },
    });
    const event = sandbox.emit('transfer.settled');
    if (where !== 'listed') await inbox.record([event], { dueInMs: 0, origin: 'pull' });
    poller.start();
    await vi.waitUntil(() => reports.length === 2, { timeout: 60_000, interval: 1 });
    expect(reports).toMatchObject([{ failed: 1 }, { failed: 0 }]);
    expect((await inbox.find(event.id))?.state).toBe('leased');
  },
);

test('a poller that is started while its last poll still stops polls at once, has one timer, and none after a stop', async () => {
  const [entered, finish, armed] = [createSignal(), createSignal(), createSignal()];
  const timers = new Map<unknown, () => void>();
  const reports: (readonly string[])[] = [];
  const it = await setUp({
    handle: () => {
      entered.resolve();
      return finish.promise;
    },
    poller: {
      intervalMs: 100_000,
      onReport: (report) => void reports.push(codes(report)),
      runtime: {
        setTimeout(callback, ms) {
          if (ms < 50_000) return setTimeout(callback, ms);
          const timer = {};
          timers.set(timer, callback);
          armed.resolve();
          return timer;
        },
        clearTimeout: (timer) => void (timers.delete(timer) || clearTimeout(timer as NodeJS.Timeout)),
      },
    },
  });
  await fire(it, 1);
  it.poller.start();
  await entered.promise;
  const stopped = it.poller.stop();
  it.poller.start();
  finish.resolve();
  await stopped;
  await armed.promise;
  expect(reports.map((problems) => problems.includes('ERR_POLL_STOPPED'))).toEqual([true, false]);
  await it.poller.pollOnce();
  expect(timers.size).toBe(1);
  await it.poller.stop();
  expect(timers.size).toBe(0);
});

test('createPoller refuses options that make no sense by name', async () => {
  const { options } = await setUp();
  const refused: readonly [Partial<PollerOptions>, RegExp][] = [
    [{ limit: 0 }, /limit/],
    [{ limit: 200, maxLimit: 100 }, /maxLimit/],
    [{ intervalMs: 1.5 }, /intervalMs/],
    [{ since: new Date('never') }, /since/],
    [{ lagMS: 1 } as Partial<PollerOptions>, /lagMS/],
  ];
  for (const [wrong, name] of refused) expect(() => createPoller({ ...options, ...wrong })).toThrow(name);
});
