/** What a receiver says, once, about wiring that can run an event twice or never. */
import { memoryInbox, PermanentError } from 'stablehooks';
import { EMPTY_POLL_STATE, writePollState } from 'stablehooks/catch-up';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { anEvent, deferred } from './delivery.js';
import { down, durable, settled, setUp, someEvents } from './set-up.js';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

// Test files share a process, and 50 receivers with one delivery each are named: a second delivery turns that off.
beforeAll(async () => {
  const { deliver } = setUp();
  await deliver();
  await deliver();
});

describe('an inbox that is not durable', () => {
  test('is named once in production, at the first event, with the fix', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    const inbox = memoryInbox();
    const first = setUp(undefined, { inbox });
    expect(first.lines).toEqual([]);
    for (let count = 0; count < 3; count++) await first.deliver();
    expect(first.lines).toEqual([
      expect.stringMatching(
        /not durable, but NODE_ENV is production.*sqliteInbox, postgresInbox, mysqlInbox or redisInbox/,
      ),
    ]);
    const second = setUp(undefined, { inbox });
    await second.deliver();
    expect(second.lines).toEqual([]);
  });

  test('is not named in development, and a durable one is not named in production', async () => {
    const development = setUp();
    await development.deliver();
    vi.stubEnv('NODE_ENV', 'production');
    const production = setUp(undefined, { inbox: durable() });
    await production.deliver();
    expect([...development.lines, ...production.lines]).toEqual([]);
  });

  test.each([
    ['without processes', undefined],
    ['whose processes have no environment', {}],
  ])('is not named on a platform %s', async (_name, process) => {
    const { receiver, lines } = setUp();
    vi.stubGlobal('process', process);
    // The receiver asks before this call returns.
    const outcome = receiver.handle(anEvent(), 'pull');
    vi.unstubAllGlobals();
    expect((await outcome).kind).toBe('handled');
    expect(lines).toEqual([]);
  });
});

describe('an event that is stored to run later', () => {
  const idle = (lines: readonly string[]) => lines.filter((line) => line.includes('is stored to run later'));

  test('is named once, at the first failure, with the fix, if nothing redrives', async () => {
    const { lines, deliver } = setUp(down, { inbox: durable() });
    const events = someEvents(3);
    for (const event of events) await deliver(event);
    await settled();
    expect(idle(lines)).toEqual([
      expect.stringMatching(
        `${events[0]?.id} is stored to run later.*Call start\\(\\) in one of your processes`,
      ),
    ]);
  });

  test('is named if it waits for its ordering key', async () => {
    const gate = deferred();
    const { lines, deliver } = setUp(() => gate.promise, { inbox: durable(), orderingKey: () => 'key' });
    const [first, second] = someEvents(2);
    const running = deliver(first);
    await deliver(second);
    await settled();
    expect(idle(lines)).toEqual([expect.stringContaining(`${second?.id} is stored`)]);
    gate.resolve();
    await running;
  });

  type Parts = ReturnType<typeof setUp>;
  const polled = ({ inbox }: Parts) => writePollState(inbox, EMPTY_POLL_STATE);

  test.each<[string, (parts: Parts) => unknown]>([
    ['start() was called', ({ receiver }) => receiver.start()],
    ['redrive() was called', ({ receiver }) => receiver.redrive()],
    ['the inbox says that a poller runs', polled],
    [
      'the inbox cannot be asked',
      ({ inbox }) => vi.spyOn(inbox, 'readNote').mockRejectedValue(new Error('down')),
    ],
  ])('is not named if %s', async (_name, prepare) => {
    const parts = setUp(down, { inbox: durable() });
    await prepare(parts);
    await parts.deliver();
    await settled();
    expect(idle(parts.lines)).toEqual([]);
    await parts.receiver.close();
  });

  test('is not named in memory, where the sender delivers it again, and not if it is dead', async () => {
    const memory = setUp(down);
    await memory.deliver();
    const dead = setUp(() => Promise.reject(new PermanentError('closed')), { inbox: durable() });
    await dead.deliver();
    await settled();
    expect(idle([...memory.lines, ...dead.lines])).toEqual([]);
  });

  test('is not named by the worker of a queue: the receiver in front redrives', async () => {
    const { receiver, lines } = setUp(down, { inbox: durable() });
    await receiver.handle(anEvent(), 'queue');
    await settled();
    expect(idle(lines)).toEqual([]);
  });
});
