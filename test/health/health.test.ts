import { type Inbox, memoryInbox, type UnknownEvent } from 'stablehooks';
import { EMPTY_POLL_STATE, type PollState, writePollState } from 'stablehooks/catch-up';
import {
  HEALTH_CHECKS,
  type HealthCheck,
  type HealthLimits,
  health,
  toHealthRoutes,
} from 'stablehooks/health';
import { describe, expect, test, vi } from 'vitest';
import { claimed } from '../inboxes/claimed.js';

const START = Date.parse('2026-03-01T09:00:00Z');
const MINUTE_MS = 60_000;

function setUp() {
  const clock = { now: START };
  const runtime = { now: () => clock.now };
  const inbox = memoryInbox({ runtime });
  const event = (id: string, type = 'transfer.settled'): UnknownEvent => ({
    ...{ id, type, created_at: new Date(clock.now).toISOString(), payload: {} },
  });
  const check = async (limits: HealthLimits = {}) => {
    const result = await health(inbox, { runtime, ...limits });
    const checks = Object.fromEntries(result.checks.map((each) => [each.name, each]));
    return { ...result, checks: checks as Readonly<Record<HealthCheck['name'], HealthCheck>> };
  };
  const savePoll = async (state: Partial<PollState>) =>
    writePollState(inbox, { ...EMPTY_POLL_STATE, since: START - 1, ...state });
  return { clock, inbox, event, check, savePoll };
}

test('an inbox that nobody uses shows nothing, and is unhealthy if push or polls are required', async () => {
  const { check } = setUp();
  const { healthy, tone, verdict, checks } = await check();
  expect([healthy, tone, verdict]).toEqual([true, 'neutral', expect.stringMatching(/^Nothing to judge/)]);
  // Movements are judged only where findOwed has run.
  expect(Object.keys(checks)).toEqual(HEALTH_CHECKS.filter((name) => name !== 'owed'));
  expect(Object.values(checks).filter((each) => each.tone !== 'neutral')).toEqual([]);
  expect(checks.coverage.message).toMatch(/^Not verified yet: .*createPoller/);
  expect(await check({ requirePoll: true })).toMatchObject({
    ...{ healthy: false, verdict: 'Needs you: poll, coverage.' },
    checks: { coverage: { healthy: false }, poll: { message: expect.stringMatching(/Start a poller/) } },
  });
  expect(await check({ requirePush: true })).toMatchObject({
    ...{ healthy: false, verdict: 'Needs you: refused.' },
    checks: { refused: { message: expect.stringMatching(/URL that you gave the service/) } },
  });
});

test('a first poll that has proven nothing yet is not coverage', async () => {
  const { check, savePoll } = setUp();
  await savePoll({ since: START, watermark: START });
  expect((await check({ requirePoll: true })).checks.coverage).toMatchObject({ healthy: false });
  await savePoll({ since: START, watermark: START, lastAttempt: { at: START } });
  expect((await check({ requirePoll: true })).checks.coverage).toMatchObject({ tone: 'neutral' });
});

test('a first poll that was doubtful is unhealthy, although nothing is proven yet', async () => {
  const { check, savePoll } = setUp();
  const doubts = ['ERR_CLOCK_BEHIND'];
  await savePoll({ since: START, watermark: START, lastAttempt: { at: START }, doubts });
  expect((await check()).checks.coverage).toMatchObject({
    tone: 'failing',
    message: expect.stringMatching(/^Nothing is proven yet, and the last poll reported ERR_CLOCK_BEHIND\./),
  });
});

test('a poll in the future is unhealthy, because a clock is wrong', async () => {
  const { clock, check, savePoll } = setUp();
  await savePoll({ watermark: START, lastAttempt: { at: START + MINUTE_MS + 1 } });
  expect((await check()).checks.poll).toMatchObject({
    tone: 'failing',
    message: expect.stringMatching(/^The last poll ran at 2026-03-01T09:01\S+, which is in the future/),
  });
  clock.now += 1;
  expect((await check()).checks.poll).toMatchObject({ tone: 'ok' });
});

test('an event that ended without a handler is a warning, even if its process was killed before it counted', async () => {
  const { inbox, event, check } = setUp();
  await inbox.ignore([event('a', 'redeem.failed')], { origin: 'push' });
  expect((await check()).checks.ignored).toMatchObject({
    ...{ tone: 'warning', count: 1 },
    message: expect.stringContaining('no handler is registered: redeem.failed 1.'),
  });
  await inbox.ignore([event('b', 'redeem.failed')], { origin: 'push' });
  expect((await check()).checks.ignored).toMatchObject({
    ...{ tone: 'warning', count: 2 },
    message: expect.stringContaining('no handler is registered: redeem.failed 2.'),
  });
});

test('a proof may be as old as the limit says, even a month', async () => {
  const { clock, check, savePoll } = setUp();
  await savePoll({ watermark: START, lastAttempt: { at: START } });
  clock.now += 29 * 24 * 60 * MINUTE_MS;
  const limits = { provenMs: 30 * 24 * 60 * MINUTE_MS };
  expect((await check(limits)).checks).toMatchObject({ poll: { tone: 'ok' }, coverage: { tone: 'ok' } });
});

describe('the quiet week', () => {
  async function quietWeek(watermark: number, state: Partial<PollState> = {}) {
    const it = setUp();
    await it.inbox.record([it.event('evt_1')], { dueInMs: null, origin: 'push' });
    it.clock.now = START + 7 * 24 * 60 * MINUTE_MS;
    await it.savePoll({ watermark: it.clock.now - watermark, ...state });
    return { ...it, result: await it.check() };
  }

  test('is quiet if polls prove it', async () => {
    const { result } = await quietWeek(5 * MINUTE_MS);
    expect(result).toMatchObject({
      healthy: true,
      checks: {
        coverage: {
          message: expect.stringMatching(
            /^The last event arrived at \S+01T09:00.* missing up to \S+08T08:55/,
          ),
        },
      },
    });
  });

  test('does not call a time quiet in which an event came', async () => {
    const { inbox, event, check } = await quietWeek(5 * MINUTE_MS);
    await inbox.record([event('evt_2')], { dueInMs: null, origin: 'push' });
    expect((await check()).checks.coverage.message).toMatch(/^The last event .*08T09:00.*08T08:55/);
  });

  test('is unhealthy while the last poll was doubtful', async () => {
    const { result } = await quietWeek(5 * MINUTE_MS, { doubts: ['ERR_EVENT_CONFLICT'] });
    expect(result.checks.coverage).toMatchObject({
      healthy: false,
      message: expect.stringMatching(/reported ERR_EVENT_CONFLICT/),
    });
  });

  test('is silent if none has proven anything for an hour', async () => {
    const { result } = await quietWeek(60 * MINUTE_MS + 1);
    expect(result.healthy).toBe(false);
    expect(result.checks.coverage).toMatchObject({
      healthy: false,
      message: expect.stringMatching(
        /^The last event arrived at \S+01T09:00.* no poll has proven anything since \S+08T07:59:59\.999Z/,
      ),
    });
  });

  test('is healthy with an unconfirmed span, says what would settle it, and does not count it as a gap', async () => {
    const until = { 'redeem.failed': START - 5 };
    const gap = {
      from: START - 9,
      until,
      reason: 'unconfirmed',
      openedAt: START,
      acknowledged: null,
    } as const;
    const unconfirmed = { from: START - 9, until: START - 5, size: 80 };
    const { result } = await quietWeek(6 * MINUTE_MS, { unconfirmed, gaps: [gap] });
    expect(result.healthy).toBe(true);
    expect(result.checks.gaps).toMatchObject({ healthy: true, count: 0 });
    expect(result.checks.coverage.message).toMatch(
      / except in 1 unconfirmed span\. The list may have been cut off: it returned 80 events regardless of the requested limit\. A larger response would settle the question, and so would a maximum/,
    );
  });
});

test('an open gap is unhealthy, and an acknowledged one is not', async () => {
  const { check, savePoll } = setUp();
  const until = { 'redeem.failed': START - 5 };
  const gap = { from: START - 9, until, reason: 'no-order', openedAt: START, acknowledged: null } as const;
  await savePoll({ watermark: START, gaps: [gap] });
  expect((await check()).checks.gaps).toMatchObject({
    ...{ healthy: false, count: 1 },
    message: expect.stringMatching(/^1 gap is open, .*T08:59:59\.991Z.*`stablehooks gaps list`/),
  });
  const acknowledged = { by: 'ops', reason: 'the books agree', at: START };
  await savePoll({ watermark: START, gaps: [{ ...gap, acknowledged }] });
  expect(await check()).toMatchObject({
    healthy: true,
    checks: {
      gaps: { count: 0 },
      coverage: { message: expect.stringMatching(/1 acknowledged gap/) },
    },
  });
});

/** Its handler asks for an attempt in ten minutes. */
async function postpone(inbox: Inbox<undefined>, event: UnknownEvent) {
  const retryAfterMs = 10 * MINUTE_MS;
  await inbox.fail(await claimed(inbox, event), {
    ...{ retryAfterMs, error: 'ERR_HANDLER_LATER: not yet', later: { maxAgeMs: 60 * MINUTE_MS } },
  });
}

test('an event that is due for long is unhealthy, and one whose retry time is later is not', async () => {
  const { clock, inbox, event, check } = setUp();
  await inbox.record([event('now')], { dueInMs: 0, origin: 'push' });
  await postpone(inbox, event('later'));
  expect((await check()).healthy).toBe(true);
  clock.now += 5 * MINUTE_MS;
  expect((await check()).checks.due).toMatchObject({
    ...{ healthy: false, count: 1 },
    message: expect.stringMatching(/^1 event is overdue, .*T09:00:00\.000Z.*receiver\.start/),
  });
  expect((await check({ dueMs: 6 * MINUTE_MS })).healthy).toBe(true);
});

test('an overdue event is found behind any number of events that are not due', async () => {
  const { clock, inbox, event, check } = setUp();
  const waiting = Array.from({ length: 1_000 }, (_, index) => event(`later ${index}`));
  for (const each of waiting) await postpone(inbox, each);
  await inbox.record([event('now')], { dueInMs: 0, origin: 'push' });
  clock.now += 5 * MINUTE_MS;
  expect((await check()).checks.due).toMatchObject({ healthy: false, count: 1 });
});

test('an event whose retry time has passed for long is unhealthy', async () => {
  const { clock, inbox, event, check } = setUp();
  const lease = await claimed(inbox, event('a'));
  await inbox.fail(lease, { retryAfterMs: MINUTE_MS, error: 'ERR_HANDLER_FAILED: down' });
  clock.now += 5 * MINUTE_MS;
  expect((await check()).checks.due).toMatchObject({ healthy: true, count: 0 });
  clock.now += MINUTE_MS;
  expect((await check()).checks.due).toMatchObject({
    ...{ healthy: false, count: 1 },
    message: expect.stringMatching(/^1 event is overdue, .*T09:00:00\.000Z/),
  });
});

test('events that asked for later wait, and an event behind many of them that no worker runs is unhealthy', async () => {
  const { clock, inbox, event, check } = setUp();
  for (let index = 0; index < 250; index += 1) await postpone(inbox, event(`later ${index}`));
  clock.now += 6 * MINUTE_MS;
  const list = vi.spyOn(inbox, 'list');
  expect((await check()).checks.due).toMatchObject({ healthy: true, count: 0 });
  // Any number of them is counted, and only the first are read.
  expect(list.mock.calls.filter(([{ state }]) => state === 'received')).toHaveLength(1);
  clock.now += 1;
  await inbox.record([event('enqueued')], { dueInMs: 0, origin: 'push' });
  clock.now += 3 * MINUTE_MS;
  const take = { limit: 9, visibilityTimeoutMs: 60 * MINUTE_MS, types: ['transfer.settled'] };
  expect(await inbox.takeDue(take)).toMatchObject([{ id: 'enqueued' }]);
  expect((await check({ dueMs: 3 * MINUTE_MS })).checks.due).toMatchObject({ healthy: false, count: 1 });
});

test.for([undefined, 'key'])(
  'an event that is enqueued again and again and that no worker runs is unhealthy (ordering key %s)',
  async (key) => {
    const { clock, inbox, event, check } = setUp();
    await inbox.record([event('a')], { dueInMs: MINUTE_MS, origin: 'push', keys: [key] });
    for (let minute = 0; minute < 6; minute += 1) {
      expect((await check({ dueMs: 6 * MINUTE_MS })).healthy).toBe(true);
      clock.now += MINUTE_MS;
      await inbox.takeDue({ limit: 1, visibilityTimeoutMs: MINUTE_MS, types: ['transfer.settled'] });
    }
    expect((await check({ dueMs: 6 * MINUTE_MS })).checks.due).toMatchObject({
      ...{ healthy: false, count: 1 },
      message: expect.stringContaining('2026-03-01T09:00:00.000Z'),
    });
  },
);

test('an event that waits for its ordering key while another one runs is healthy', async () => {
  const { clock, inbox, event, check } = setUp();
  await inbox.claim(event('a'), { leaseMs: 60 * MINUTE_MS, origin: 'push', key: 'key' });
  await inbox.claim(event('b'), { leaseMs: 60 * MINUTE_MS, origin: 'push', key: 'key' });
  clock.now += 10 * MINUTE_MS;
  expect(await check()).toMatchObject({ healthy: true, checks: { due: { count: 0 } } });
});

test('a lease that lapsed and that no process took over is unhealthy', async () => {
  const { clock, inbox, event, check } = setUp();
  await inbox.claim(event('a'), { leaseMs: MINUTE_MS, origin: 'push' });
  clock.now += 5 * MINUTE_MS;
  expect((await check()).healthy).toBe(true);
  clock.now += MINUTE_MS;
  expect((await check()).checks).toMatchObject({
    leases: { healthy: false, count: 1 },
    due: { healthy: true },
  });
});

test('dead events are unhealthy above maxDead, with the newest error, and failed ones are a note', async () => {
  const { inbox, event, check } = setUp();
  const fail = async (id: string, retryAfterMs: number | null) =>
    inbox.fail(await claimed(inbox, event(id)), { retryAfterMs, error: `${id} is broken` });
  await fail('a', MINUTE_MS);
  expect(await check()).toMatchObject({
    healthy: true,
    checks: { failing: { tone: 'warning', count: 1, message: expect.stringContaining('a is broken') } },
  });
  await fail('b', null);
  expect((await check()).checks.dead).toMatchObject({
    ...{ healthy: false, count: 1 },
    message: expect.stringMatching(/b is broken.*ledger.*`stablehooks inbox requeue`/),
  });
  expect((await check({ maxDead: 1 })).healthy).toBe(true);
});

test('the last pushed event is named, and parked ones are a warning', async () => {
  const { clock, inbox, event, check } = setUp();
  await inbox.record([event('a')], { dueInMs: 60 * MINUTE_MS, origin: 'push' });
  clock.now += MINUTE_MS;
  await inbox.record([event('b', 'wallet.frozen')], { dueInMs: null, origin: 'pull' });
  expect(await check()).toMatchObject({
    ...{ healthy: true, verdict: 'Nothing is failing. Look at: ignored (1).' },
    checks: {
      refused: { tone: 'ok', message: expect.stringContaining('push arrived at 2026-03-01T09:00:00.000Z') },
      ignored: { tone: 'warning', count: 1, message: expect.stringContaining('Upgrade stablehooks') },
    },
  });
});

test('where polls recover everything, it is not shown that push works, and the check says what to look at', async () => {
  const { inbox, event, check } = setUp();
  await inbox.record([event('a'), event('b')], { dueInMs: 60 * MINUTE_MS, origin: 'pull' });
  expect((await check()).checks.refused).toMatchObject({
    ...{ healthy: true, tone: 'neutral' },
    message: expect.stringMatching(/the last 2 .*by push.*URL/),
  });
});

test('where the last events came by polls alone after a push, it is a warning, and with requirePush a failure, however many they are', async () => {
  const { inbox, event, check, clock } = setUp();
  await inbox.record([event('pushed')], { dueInMs: 60 * MINUTE_MS, origin: 'push' });
  for (const [count, tone] of [
    [4, 'ok'],
    [5, 'warning'],
    [99, 'warning'],
  ] as const) {
    clock.now += 1_000;
    const polled = Array.from({ length: count }, (_, index) => event(`polled ${index}`));
    await inbox.record(polled, { dueInMs: 60 * MINUTE_MS, origin: 'pull' });
    expect((await check()).checks.refused.tone).toBe(tone);
    expect((await check({ requirePush: true })).checks.refused.healthy).toBe(tone === 'ok');
  }
});

test('failing of dead events alone names their codes, and the list that shows them', async () => {
  const { inbox, event, check } = setUp();
  for (const id of ['a', 'b', 'c'])
    await inbox.fail(await claimed(inbox, event(id)), {
      retryAfterMs: null,
      error: 'ERR_HANDLER_PERMANENT: no such account',
    });
  expect((await check({ maxDead: 5 })).checks.failing).toMatchObject({
    ...{ tone: 'failing', count: 3 },
    message: expect.stringMatching(/: ERR_HANDLER_PERMANENT 1\. .*no such account.* --state dead/),
  });
});

describe('failing', () => {
  async function failed(
    inbox: Inbox<undefined>,
    events: readonly UnknownEvent[],
    error = 'ERR_HANDLER_FAILED: down',
  ) {
    for (const each of events)
      await inbox.fail(await claimed(inbox, each), { retryAfterMs: 3_600_000, error });
  }
  const many = (event: (id: string) => UnknownEvent, count: number, name: string) =>
    Array.from({ length: count }, (_, index) => event(`${name} ${index}`));

  test('three of 30 events are a warning, and three of 29 are failing, with the count of each code', async () => {
    const { inbox, event, check } = setUp();
    await failed(inbox, many(event, 2, 'failed'));
    await failed(inbox, [event('late')], 'ERR_HANDLER_TIMEOUT: slow');
    for (const each of many(event, 26, 'done')) await inbox.complete(await claimed(inbox, each));
    expect((await check()).checks.failing).toMatchObject({
      ...{ tone: 'failing', count: 3 },
      message: expect.stringMatching(/^3 of 29 events .*ERR_HANDLER_FAILED 2/),
    });
    expect((await check()).checks.failing.message).toContain('ERR_HANDLER_TIMEOUT 1');
    await inbox.complete(await claimed(inbox, event('one more')));
    expect((await check()).checks.failing).toMatchObject({ tone: 'warning', count: 3 });
  });

  test('older events that ran again in the last hour count', async () => {
    const { clock, inbox, event, check } = setUp();
    await inbox.record(many(event, 30, 'old'), { dueInMs: 2 * 3_600_000, origin: 'push' });
    clock.now += 2 * 3_600_000;
    const [a, b, c, ...others] = many(event, 30, 'old') as [UnknownEvent, UnknownEvent, UnknownEvent];
    await failed(inbox, [a, b, c]);
    for (const each of others as readonly UnknownEvent[]) await inbox.complete(await claimed(inbox, each));
    expect((await check()).checks.failing).toMatchObject({ tone: 'warning', count: 3 });
  });

  test('health reads no payload, because a hundred large ones would stop the process', async () => {
    const { inbox, event } = setUp();
    await failed(inbox, many(event, 5, 'failed'));
    const payloads: unknown[] = [];
    const watched = {
      ...inbox,
      async list(options: Parameters<typeof inbox.list>[0]) {
        const records = await inbox.list(options);
        payloads.push(...records.map(({ event: read }) => read));
        return records;
      },
    };
    expect((await health(watched)).counts).toContainEqual(
      expect.objectContaining({ state: 'failed', count: 5 }),
    );
    expect(new Set(payloads)).toEqual(new Set([null]));
  });

  test('an event that runs again is still failing until it succeeds, and a postponed one is not', async () => {
    const { clock, inbox, event, check } = setUp();
    const [first] = many(event, 1, 'failed') as [UnknownEvent];
    await failed(inbox, [first]);
    clock.now += 3_600_000;
    const lease = await claimed(inbox, first);
    expect((await check()).checks.failing).toMatchObject({
      ...{ tone: 'failing', count: 1 },
      message: expect.stringMatching(
        /^1 event has been failing for more than an hour, the first received at 2026-03-01T09:00/,
      ),
    });
    await inbox.complete(lease);
    await postpone(inbox, event('later'));
    clock.now += 10 * MINUTE_MS;
    await claimed(inbox, event('later'));
    const both = await claimed(inbox, event('failed, then later'));
    await inbox.fail(both, { retryAfterMs: MINUTE_MS, error: 'ERR_HANDLER_FAILED: down' });
    clock.now += MINUTE_MS;
    await postpone(inbox, event('failed, then later'));
    clock.now += 10 * MINUTE_MS;
    await claimed(inbox, event('failed, then later'));
    expect((await check()).checks.failing).toMatchObject({ tone: 'ok' });
  });
});

test('an event that a person requeued fails again: its former attempts do not make it failing for long', async () => {
  const { clock, inbox, event, check } = setUp();
  const fail = async (retryAfterMs: number) =>
    inbox.fail(await claimed(inbox, event('a')), { retryAfterMs, error: 'ERR_HANDLER_FAILED: down' });
  await fail(MINUTE_MS);
  clock.now += 120 * MINUTE_MS;
  expect(await inbox.requeue('a')).toBe(1);
  await fail(120 * MINUTE_MS);
  clock.now += MINUTE_MS;
  expect((await check()).checks.failing).toMatchObject({ tone: 'warning', count: 1 });
  clock.now += 60 * MINUTE_MS;
  expect((await check()).checks.failing).toMatchObject({ tone: 'failing', count: 1 });
});

test.for([
  ['25006', 'cannot execute INSERT in a read-only transaction'],
  ['SQLITE_FULL', 'database or disk is full'],
] as const)(
  'a database that cannot be written (%s) is unhealthy, even if a data layer wraps the error of its driver',
  async ([code, words]) => {
    const { inbox, event } = setUp();
    await inbox.record([event('a')], { dueInMs: 60_000, origin: 'push' });
    const cause = Object.assign(new Error(words), { code });
    const readOnly = {
      ...inbox,
      writeNote: () => Promise.reject(new Error('The query failed.', { cause })),
    };
    const { healthy, checks } = await health(readOnly);
    expect(healthy).toBe(false);
    expect(checks).toContainEqual(
      expect.objectContaining({
        ...{ name: 'refused', tone: 'failing' },
        message: expect.stringMatching(`rejects writes: ${words}\\. Free disk space`),
      }),
    );
  },
);

test('poll: a first failure is a warning, and failures for five minutes are unhealthy, with the code of the last', async () => {
  const { clock, check, savePoll } = setUp();
  const lastAttempt = {
    at: START,
    error: 'ERR_API_STATUS',
    message: 'GET … returned 401. Check that the token is valid and belongs to this base URL.',
    failingSince: START,
  };
  await savePoll({ watermark: START, lastAttempt });
  expect((await check()).checks.poll).toMatchObject({ tone: 'warning' });
  clock.now += 5 * MINUTE_MS;
  expect((await check()).checks.poll).toMatchObject({
    ...{ tone: 'failing' },
    message: expect.stringMatching(
      /^Polls have failed to read the event list since 2026-03-01T09:00.* ERR_API_STATUS: .*401/,
    ),
  });
  await savePoll({ watermark: START, lastAttempt: { ...lastAttempt, at: clock.now } });
  expect((await check()).checks.poll).toMatchObject({ tone: 'failing' });
  await savePoll({ watermark: START, lastAttempt: { at: START } });
  expect((await check()).checks.poll).toMatchObject({ tone: 'ok' });
  clock.now = START + 61 * MINUTE_MS;
  expect((await check()).checks.poll).toMatchObject({
    tone: 'failing',
    message: expect.stringContaining('process is running'),
  });
});

test('an inbox that fails is ERR_INBOX_FAILED, and a misspelt limit is refused', async () => {
  const { inbox } = setUp();
  const down = {
    ...inbox,
    count: async () => {
      throw new Error('down');
    },
  };
  await expect(health(down)).rejects.toMatchObject({ code: 'ERR_INBOX_FAILED' });
  await expect(health(inbox, { maxDaed: 1 } as HealthLimits)).rejects.toThrow('unknown option `maxDaed`');
});

describe('the routes', () => {
  test('answer 200 or 503 with the names of the checks, and nothing of their messages', async () => {
    const { inbox, event } = setUp();
    const routes = toHealthRoutes(inbox);
    expect((await routes.health()).status).toBe(200);
    await inbox.fail(await claimed(inbox, event('a')), { retryAfterMs: null, error: 'secret' });
    const response = await routes.health();
    expect(response.status).toBe(503);
    const text = await response.text();
    expect(text).not.toContain('secret');
    expect(JSON.parse(text).checks).toContainEqual({ name: 'dead', tone: 'failing', healthy: false });
    // A restart does not heal a dead event.
    expect((await routes.ready()).status).toBe(200);
  });

  test('answer 503 when the inbox fails or does not answer in time', async () => {
    const { inbox } = setUp();
    const failing = {
      ...inbox,
      readNote: async () => {
        throw new Error('hunter2');
      },
    };
    for (const route of Object.values(toHealthRoutes(failing))) {
      const response = await route();
      expect(response.status).toBe(503);
      expect(await response.json()).toEqual({ healthy: false, code: 'ERR_INBOX_FAILED' });
    }
    const runtime = {
      setTimeout: (callback: () => void) => queueMicrotask(callback),
      clearTimeout: () => undefined,
    };
    const silent = { ...inbox, readNote: () => new Promise<string>(() => undefined) };
    expect((await toHealthRoutes(silent, { runtime }).ready()).status).toBe(503);
  });
});
