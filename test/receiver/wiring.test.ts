/** What a receiver says, once, about wiring that can run an event twice or never, and values given as functions. */
import cluster from 'node:cluster';
import {
  createReceiver,
  type Inbox,
  type InboxOperations,
  memoryInbox,
  type ReceiverOptions,
} from 'stablehooks';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { anEvent, delivery, secret } from './delivery.js';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

function setUp(options: Partial<ReceiverOptions> = {}) {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const handlers = { 'transfer.settled': () => undefined };
  const receiver = createReceiver({ secret, handlers, logger: { warn: log, error: log }, ...options });
  return { receiver, lines };
}

describe('an inbox that is not durable', () => {
  test('in production it is said once, at the first event, with the fix', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    const inbox = memoryInbox();
    const first = setUp({ inbox });
    expect(first.lines).toEqual([]);
    for (let count = 0; count < 3; count++) await first.receiver.receive(await delivery(anEvent()));
    expect(first.lines).toEqual([
      expect.stringMatching(
        /not durable, and NODE_ENV is production.*sqliteInbox, postgresInbox or redisInbox/,
      ),
    ]);
    const second = setUp({ inbox });
    await second.receiver.receive(await delivery(anEvent()));
    expect(second.lines).toEqual([]);
  });

  test('in a worker of a cluster it is said, whatever the environment', async () => {
    Object.assign(cluster, { isWorker: true });
    onTestFinished(() => void Object.assign(cluster, { isWorker: false }));
    const { receiver, lines } = setUp();
    await receiver.receive(await delivery(anEvent()));
    expect(lines).toEqual([expect.stringMatching(/not durable, and this process is one of a cluster/)]);
  });

  test.each([
    ['without processes', undefined],
    ['whose processes have no environment', {}],
  ])('on a platform %s nothing is said, and events are handled', async (_name, process) => {
    const { receiver, lines } = setUp();
    vi.stubGlobal('process', process);
    // The receiver asks before this call returns.
    const outcome = receiver.handle(anEvent(), 'pull');
    vi.unstubAllGlobals();
    expect((await outcome).kind).toBe('handled');
    expect(lines).toEqual([]);
  });

  test('in development nothing is said, and in production not of a durable inbox', async () => {
    const development = setUp();
    await development.receiver.receive(await delivery(anEvent()));
    vi.stubEnv('NODE_ENV', 'production');
    const durable = setUp({ inbox: { ...memoryInbox(), durable: true } });
    await durable.receiver.receive(await delivery(anEvent()));
    expect([...development.lines, ...durable.lines]).toEqual([]);
  });
});

describe('failed events that nobody redrives', () => {
  const failing = { 'transfer.settled': () => Promise.reject(new Error('no')) };
  const durable = (): Inbox & InboxOperations => ({ ...memoryInbox(), durable: true });
  const isAboutRedrive = (line: string) => /nothing runs it\. Call receiver\.run\(\)/.test(line);

  test('it is said once, two leases after an event was due', async () => {
    vi.useFakeTimers();
    const { receiver, lines } = setUp({ handlers: failing, inbox: durable() });
    await receiver.handle(anEvent(), 'push');
    await receiver.handle(anEvent(), 'push');
    await vi.advanceTimersByTimeAsync(119_000);
    expect(lines.filter(isAboutRedrive)).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_000_000);
    await receiver.handle(anEvent(), 'push');
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(lines.filter(isAboutRedrive)).toHaveLength(1);
  });

  test.each([
    ['was run by a delivery', (_: Inbox) => undefined],
    [
      'could not be looked up',
      (inbox: Inbox & InboxOperations) => vi.spyOn(inbox, 'find').mockRejectedValueOnce(new Error('down')),
    ],
  ])('it is said of a later event when the first one %s', async (_, prepare) => {
    vi.useFakeTimers();
    const inbox = durable();
    let fails = true;
    const handlers = { 'transfer.settled': () => (fails ? Promise.reject(new Error('no')) : undefined) };
    const { receiver, lines } = setUp({ handlers, inbox });
    const [first, later] = [anEvent(), anEvent()];
    await receiver.handle(first, 'push');
    prepare(inbox);
    fails = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect((await receiver.handle(first, 'push')).kind).toBe('handled');
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(lines.filter(isAboutRedrive)).toEqual([]);
    fails = true;
    await receiver.handle(later, 'push');
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(lines.filter(isAboutRedrive)).toHaveLength(1);
    expect(lines.filter(isAboutRedrive)[0]).toContain(later.id);
  });

  test('nothing is said of an inbox that cannot look events up', async () => {
    vi.useFakeTimers();
    const { find: _, ...inbox } = durable();
    const { receiver, lines } = setUp({ handlers: failing, inbox });
    await receiver.handle(anEvent(), 'push');
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(lines.filter(isAboutRedrive)).toEqual([]);
  });

  test('it is said of an event that a redelivery has run again in vain', async () => {
    vi.useFakeTimers();
    const { receiver, lines } = setUp({ handlers: failing, inbox: durable() });
    const event = anEvent();
    await receiver.handle(event, 'push');
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'failed', attempt: 2 });
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(lines.filter(isAboutRedrive)).toHaveLength(1);
  });

  test('a long lease makes no timer overflow', async () => {
    vi.useFakeTimers();
    const { receiver, lines } = setUp({ handlers: failing, inbox: durable(), leaseMs: 2 ** 31 - 1 });
    await receiver.handle(anEvent(), 'push');
    await vi.advanceTimersByTimeAsync(1_000_000);
    expect(lines.filter(isAboutRedrive)).toEqual([]);
  });

  test('run with the longest interval does not look all the time', async () => {
    vi.useFakeTimers();
    const inbox = durable();
    const takeDue = vi.spyOn(inbox, 'takeDue');
    const receiver = createReceiver({ secret, handlers: {}, inbox, runtime: { random: () => 0.9 } });
    const ended = receiver.run({ intervalMs: 2 ** 31 - 1 });
    await vi.advanceTimersByTimeAsync(1_000_000);
    await receiver.close();
    await ended;
    expect(takeDue).toHaveBeenCalledTimes(1);
  });

  test('nothing is said where redrive is called, here or in another process', async () => {
    vi.useFakeTimers();
    const inbox = durable();
    const here = setUp({ handlers: failing, inbox });
    await here.receiver.handle(anEvent(), 'push');
    const there = setUp({ handlers: failing, inbox });
    for (let minute = 0; minute < 60; minute++) {
      await vi.advanceTimersByTimeAsync(60_000);
      await there.receiver.redrive();
    }
    expect([...here.lines, ...there.lines].filter(isAboutRedrive)).toEqual([]);
  });
});

describe('values given as functions', () => {
  test('the secret, the inbox and the queue are asked for at the first use, and not by createReceiver', async () => {
    const inbox = vi.fn(() => ({ ...memoryInbox(), durable: true }));
    const enqueue = vi.fn(async () => undefined);
    const queue = vi.fn(() => ({ enqueue }));
    const give = vi.fn(() => secret);
    const { receiver } = setUp({ secret: give, inbox, queue });
    for (const given of [inbox, queue, give]) expect(given).not.toHaveBeenCalled();
    for (let count = 0; count < 2; count++) {
      expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('queued');
    }
    expect(enqueue).toHaveBeenCalledTimes(2);
    for (const given of [inbox, queue]) expect(given).toHaveBeenCalledOnce();
    expect(receiver.inbox).toBe(inbox.mock.results[0]?.value);
  });

  test('a function that fails fails the delivery, and is called again at the next one', async () => {
    let calls = 0;
    const { receiver, lines } = setUp({
      inbox: () => {
        calls += 1;
        if (calls === 1) throw new Error('DATABASE_URL is not set');
        return memoryInbox();
      },
    });
    const first = await receiver.receive(await delivery(anEvent()));
    expect(first).toMatchObject({ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID' } });
    expect(lines.join()).toMatch(
      /createReceiver: `inbox`: the function that gives it failed.*DATABASE_URL is not set/s,
    );
    expect((await receiver.receive(await delivery(anEvent()))).kind).toBe('handled');
  });

  test('what a function gives is checked', async () => {
    const { receiver, lines } = setUp({ inbox: () => ({}) } as object);
    expect(await receiver.receive(await delivery(anEvent()))).toMatchObject({
      kind: 'failed',
      error: { code: 'ERR_CONFIG_INVALID' },
    });
    expect(lines.join()).toMatch(/`inbox` must be an inbox/);
    const queued = setUp({ inbox: () => memoryInbox(), queue: { enqueue: async () => undefined } });
    await queued.receiver.receive(await delivery(anEvent()));
    expect(queued.lines.join()).toMatch(/`queue` needs a durable `inbox`/);
  });
});
