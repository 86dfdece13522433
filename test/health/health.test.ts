import { type Inbox, memoryInbox, type UnknownEvent } from 'stablehooks';
import { EMPTY_POLL_STATE, type PollState, writePollState } from 'stablehooks/catch-up';
import { type HealthCheck, type HealthLimits, health, toHealthRoutes } from 'stablehooks/health';
import { describe, expect, test } from 'vitest';
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

test('an inbox without a poller is healthy, says first that coverage is not shown, and is unhealthy if that is required', async () => {
  const { inbox, check } = setUp();
  const { healthy, checks } = await check();
  expect(healthy).toBe(true);
  expect((await health(inbox)).checks[0]?.name).toBe('coverage');
  expect(Object.values(checks).filter(({ shown }) => !shown)).toMatchObject([
    { name: 'coverage' },
    { name: 'push' },
    { name: 'pull' },
  ]);
  expect(checks.coverage.message).toMatch(/^Not shown: .*createPoller/);
  expect(await check({ requirePoll: true })).toMatchObject({
    healthy: false,
    checks: { coverage: { healthy: false } },
  });
});

test('a first poll that has proven nothing yet is not coverage', async () => {
  const { check, savePoll } = setUp();
  await savePoll({ since: START, watermark: START });
  expect((await check({ requirePoll: true })).checks.coverage).toMatchObject({ healthy: false });
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
        coverage: { message: expect.stringMatching(/^Quiet since \S+01T09:00.* proven until \S+08T08:55/) },
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
      message: expect.stringMatching(/doubtful: ERR_EVENT_CONFLICT/),
    });
  });

  test('is silent if none has proven anything for an hour', async () => {
    const { result } = await quietWeek(60 * MINUTE_MS + 1);
    expect(result.healthy).toBe(false);
    expect(result.checks.coverage).toMatchObject({
      healthy: false,
      message: expect.stringMatching(/^Silent since \S+01T09:00.* not proven since \S+08T07:59:59\.999Z/),
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
      / except in 1 unconfirmed span\. The list cannot be told apart from a cap: 80 events for every limit asked\. A larger answer settles it, or the service's word/,
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
    message: expect.stringMatching(/^1 open gap, .*T08:59:59\.991Z.*`stablehooks gaps list`/),
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
    message: expect.stringMatching(/^1 event due .*T09:00:00\.000Z.*receiver\.start/),
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
    checks: { failed: { count: 1, message: expect.stringContaining('a is broken') } },
  });
  await fail('b', null);
  expect((await check()).checks.dead).toMatchObject({
    ...{ healthy: false, count: 1 },
    message: expect.stringMatching(/b is broken.*ledger.*`stablehooks inbox requeue`/),
  });
  expect((await check({ maxDead: 1 })).healthy).toBe(true);
});

test('the last events of push and pull, and parked ones, are notes', async () => {
  const { clock, inbox, event, check } = setUp();
  await inbox.record([event('a')], { dueInMs: 60 * MINUTE_MS, origin: 'push' });
  clock.now += MINUTE_MS;
  await inbox.record([event('b', 'wallet.frozen')], { dueInMs: null, origin: 'pull' });
  expect(await check()).toMatchObject({
    healthy: true,
    checks: {
      push: { message: expect.stringContaining('pushed: 2026-03-01T09:00:00.000Z') },
      pull: { message: expect.stringContaining('poll: 2026-03-01T09:01:00.000Z') },
      parked: { count: 1, message: expect.stringContaining('Upgrade stablehooks') },
    },
  });
});

test('where polls recover everything, it is not shown that push works, and the note says what to check', async () => {
  const { inbox, event, check } = setUp();
  await inbox.record([event('a'), event('b')], { dueInMs: 60 * MINUTE_MS, origin: 'pull' });
  expect((await check()).checks.push).toMatchObject({
    ...{ healthy: true, shown: false },
    message: expect.stringMatching(/^None of the last 2 .*URL/),
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
    expect(JSON.parse(text).checks).toContainEqual({ name: 'dead', healthy: false });
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
