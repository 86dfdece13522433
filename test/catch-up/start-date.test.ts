/** The start date: which listed events the poller takes, and which raise an alarm. */

import { createReceiver, EVENT_TYPES, type UnknownEvent } from 'stablehooks';
import { readPollState } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import { DAY_MS, history, listed, MINUTE_MS, quiet, START, setUp } from './virtual-service.js';

test.each(['oldest', 'newest'] as const)(
  'a poller with since = now neither records nor handles older events of a list that is %s first',
  async (order) => {
    const it = setUp({ order });
    it.events.push(...history(20));
    const report = await it.poll({ since: new Date(START) });
    expect(it.handled).toEqual([]);
    expect(report).toMatchObject({ new: 0, handled: 0, deliveredButUnseen: 0, gaps: [], problems: [] });
    expect(report.skipped).toBe(report.fetched);
    expect(report.skipped).toBeGreaterThan(49);
    expect(await it.inbox.find('old-0')).toBeUndefined();

    it.clock.now += 10 * MINUTE_MS;
    it.events.push(listed('new', START), listed('newer', START + MINUTE_MS));
    expect(await it.poll({ since: new Date(START) })).toMatchObject({
      new: 2,
      recovered: 2,
      deliveredButUnseen: 2,
    });
    expect(it.handled).toEqual(['new', 'newer']);
  },
);

test('without since, the start date is the first poll, and later polls keep it', async () => {
  const it = setUp();
  it.events.push(...history(1));
  expect(await it.poll()).toMatchObject({ proven: true, fetched: 24, skipped: 24, new: 0 });
  it.clock.now += DAY_MS;
  it.events.push(listed('new', START + MINUTE_MS));
  expect(await it.poll()).toMatchObject({ proven: true, fetched: 25, skipped: 24, handled: 1 });
  expect(it.handled).toEqual(['new']);
});

test("without the service's clock, our clock can be ahead by lagMs: an event after the first poll is not skipped", async () => {
  const it = setUp();
  it.service.saysItsTime = false;
  const ahead = { lagMs: 5 * MINUTE_MS, runtime: { now: () => it.clock.now + 5 * MINUTE_MS } };
  await it.poll(ahead);
  it.events.push(listed('old', START - MINUTE_MS), listed('new', START + MINUTE_MS));
  it.clock.now += 2 * MINUTE_MS;
  expect(await it.poll(ahead)).toMatchObject({ skipped: 1 });
  expect(it.handled).toEqual(['new']);
});

test('a first poll without an answer fixes the start date lagMs before it, because our clock can be ahead by that, and no watermark', async () => {
  const it = setUp();
  it.service.up = false;
  await it.poll();
  expect(await readPollState(it.inbox)).toMatchObject({
    since: START - 5 * MINUTE_MS,
    watermark: null,
  });
  it.service.up = true;
  it.clock.now += 10 * MINUTE_MS;
  it.events.push(listed('old', START - 5 * MINUTE_MS - 1), listed('meanwhile', START + MINUTE_MS));
  expect(await it.poll()).toMatchObject({ proven: true, skipped: 1, handled: 1 });
  expect(it.handled).toEqual(['meanwhile']);
});

test('backfill handles events of any age, and those from before the start date raise no alarm', async () => {
  const it = setUp();
  it.events.push(...history(1));
  await it.poll();
  it.clock.now += 10 * MINUTE_MS;
  it.events.push(listed('late', START + MINUTE_MS));
  const report = await it.poll({ backfill: true });
  expect(report).toMatchObject({ fetched: 25, skipped: 0, handled: 25, deliveredButUnseen: 1, problems: [] });
  expect(it.handled).toHaveLength(25);

  it.events.push(listed('later', START + MINUTE_MS), listed('old', START - MINUTE_MS));
  const { problems } = await it.poll({ backfill: true });
  expect(problems.map(({ code }) => code)).toEqual(['ERR_EVENT_LATE']);
});

test('a later since in an inbox that has a start date takes no event away, such as new Date() at each start', async () => {
  const it = setUp();
  await it.poll({ since: new Date(it.clock.now) });
  it.clock.now += DAY_MS;
  it.events.push(listed('during-downtime', START + MINUTE_MS));
  expect(await it.poll({ since: new Date(it.clock.now) })).toMatchObject({ skipped: 0, handled: 1 });
});

test('an earlier since in an inbox that has a start date takes older events and raises no alarm for them', async () => {
  const it = setUp();
  await it.poll({ since: new Date(START) });
  it.events.push(...history(2));
  it.clock.now += 10 * MINUTE_MS;
  const report = await it.poll({ since: new Date(START - DAY_MS) });
  expect(report).toMatchObject({ skipped: 24, handled: 24, deliveredButUnseen: 0, gaps: [], problems: [] });
});

/** An event that push brought before the first poll. */
async function push({ inbox }: Pick<ReturnType<typeof setUp>, 'inbox'>, event: UnknownEvent) {
  const claim = await inbox.claim(event, { leaseMs: MINUTE_MS, origin: 'push' });
  if (claim.state === 'claimed') await inbox.complete(claim.lease);
}

test('a first poll that looks back proves nothing of the time from which the list has lost an event that push brought', async () => {
  const it = setUp();
  const pushed = listed('pushed', START - 20 * 60 * MINUTE_MS);
  await push(it, pushed);
  it.events.push(listed('kept', START - 10 * 60 * MINUTE_MS));
  const since = new Date(START - DAY_MS);
  const report = await it.poll({ since });
  expect(report).toMatchObject({
    proven: false,
    problems: [],
    gapsOpened: [
      {
        ...{ reason: 'removed', types: EVENT_TYPES, from: new Date(START - DAY_MS - 1).toISOString() },
        until: new Date(START - 10 * 60 * MINUTE_MS + 5 * MINUTE_MS + 1_000).toISOString(),
      },
    ],
  });
  // What the list shows later does not bring back what it has lost.
  it.clock.now += 10 * MINUTE_MS;
  expect((await it.poll({ since })).gaps).toHaveLength(1);
});

test('what push brought shows to a first poll that looks back what the list has lost also once the inbox has pruned it', async () => {
  for (const isListed of [false, true]) {
    const it = setUp();
    // Its delivery came an hour late.
    const pushed = listed('pushed', START - 60 * MINUTE_MS);
    await push(it, pushed);
    await it.inbox.prune({ olderThanMs: 0 });
    it.clock.now += 10 * 60 * MINUTE_MS;
    it.events.push(listed('kept', it.clock.now - 60 * MINUTE_MS), ...(isListed ? [pushed] : []));
    const report = await it.poll({ since: new Date(START - DAY_MS) });
    expect(report.gaps.map(({ reason }) => reason)).toEqual(isListed ? [] : ['removed']);
  }
});

test.each([
  ['is still listed', START - 20 * 60 * MINUTE_MS, true],
  ['need not be listed yet', START - MINUTE_MS, false],
] as const)('a first poll that looks back is proven if what push brought %s', async (_, at, isListed) => {
  const it = setUp();
  const pushed = listed('pushed', at);
  await push(it, pushed);
  if (isListed) it.events.push(pushed);
  it.events.push(listed('kept', START - 10 * 60 * MINUTE_MS));
  expect(await it.poll({ since: new Date(START - DAY_MS) })).toMatchObject({ proven: true, gaps: [] });
});

test('a first poll that looks back proves nothing if the inbox fails when it is read, and the next one is a first poll', async () => {
  const it = setUp();
  await push(it, listed('pushed', START - 20 * 60 * MINUTE_MS));
  it.events.push(listed('kept', START - 10 * 60 * MINUTE_MS));
  let isDown = true;
  const list: typeof it.inbox.list = async (options) => {
    if (isDown) throw new Error('down');
    return it.inbox.list(options);
  };
  const inbox = { ...it.inbox, list };
  const receiver = createReceiver({ secret: 'secret', inbox, handlers: {}, logger: quiet });
  const poll = () => it.poll({ receiver, since: new Date(START - DAY_MS) });
  expect(await poll()).toMatchObject({
    proven: false,
    watermark: null,
    problems: [{ code: 'ERR_INBOX_FAILED' }],
  });
  isDown = false;
  it.clock.now += MINUTE_MS;
  expect(await poll()).toMatchObject({ proven: false, gapsOpened: [{ reason: 'removed' }] });
});

test('a malformed element that is older than the start date is not a problem', async () => {
  const it = setUp();
  const broken = (at: number) => ({ id: 'broken', created_at: new Date(at).toISOString() }) as UnknownEvent;
  const client = (value: unknown) => ({
    events: {
      listWithProblems: async () => ({
        events: [],
        problems: [{ index: 0, fields: ['type'], value }],
        size: 1,
        servedAt: it.clock.now,
      }),
    },
  });
  const old = await it.poll({ client: client(broken(START - 1)) });
  expect(old).toMatchObject({ proven: true, problems: [] });
  it.clock.now += DAY_MS;
  const known = await it.poll({ client: client(broken(START + 1)) });
  expect(known).toMatchObject({ proven: false, problems: [{ code: 'ERR_EVENT_MALFORMED' }] });
});

test.each([0, 2])(
  'a start date that a fast clock set moves back when the clock is right: after %i more polls, no event since the first is skipped',
  async (polls) => {
    const it = setUp();
    it.service.saysItsTime = false;
    const lines: string[] = [];
    const logger = { warn: () => undefined, error: (line: string) => void lines.push(line) };
    let aheadMs = 10 * 3_600_000;
    const runtime = { now: () => it.clock.now + aheadMs };
    const created: string[] = [];
    const poll = () => it.poll({ runtime, logger });
    const next = () => {
      it.clock.now += 4 * MINUTE_MS;
      created.push(`e${created.length}`);
      it.events.push(listed(created.at(-1) ?? '', it.clock.now - MINUTE_MS));
    };
    it.events.push(...history(1));
    await poll();
    for (let count = 0; count < polls; count++) {
      next();
      await poll();
    }
    expect(it.handled).toEqual([]);

    aheadMs = 0;
    next();
    const report = await poll();
    expect(it.handled).toEqual(created);
    expect(report).toMatchObject({
      proven: false,
      skipped: 24,
      late: 0,
      gapsOpened: [{ reason: 'clock', from: '1970-01-01T00:00:00.000Z' }],
      problems: [{ code: 'ERR_WATERMARK_AHEAD' }],
    });
    expect(lines).toHaveLength(1);

    it.clock.now += 10 * MINUTE_MS;
    next();
    const later = await poll();
    expect(it.handled).toEqual(created);
    expect(later).toMatchObject({ proven: true, handled: 1, skipped: 24, problems: [] });
    // What was skipped is in no inbox, so no list closes the gap.
    expect(later.gaps).toHaveLength(1);
    const { since, watermark } = await readPollState(it.inbox);
    expect(since).toBeLessThanOrEqual(START);
    expect(since).toBeLessThanOrEqual(watermark ?? 0);
    expect(Date.parse(later.gaps[0]?.until ?? '')).toBeLessThan(since ?? 0);
  },
);

test('a watermark in the future does not move back before the start date', async () => {
  const it = setUp();
  await it.poll();
  it.service.saysItsTime = false;
  it.clock.now += MINUTE_MS;
  await it.poll({ runtime: { now: () => it.clock.now + DAY_MS } });
  expect(await it.poll()).toMatchObject({
    proven: true,
    gaps: [],
    problems: [{ code: 'ERR_WATERMARK_AHEAD' }],
  });
  expect(await readPollState(it.inbox)).toMatchObject({ since: START, watermark: START });
});
