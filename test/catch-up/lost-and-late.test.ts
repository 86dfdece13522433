/** Lists that lose events which they showed, and lists that show events later than the lag. */
import { EVENT_TYPES, type UnknownEvent } from 'stablehooks';
import { listGaps } from 'stablehooks/catch-up';
import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { DAY_MS, history, listed, MINUTE_MS, START, setUp } from './virtual-service.js';

/** A service with a day of events, two polls of it, and more polls ten minutes apart. */
async function setUpPolled() {
  const it = setUp();
  it.events.push(...history(1));
  const since = new Date(START - DAY_MS);
  const next = () => {
    it.clock.now += 10 * MINUTE_MS;
    return it.poll({ since });
  };
  expect(await it.poll({ since })).toMatchObject({ proven: true });
  expect(await next()).toMatchObject({ proven: true });
  return { ...it, next };
}

test('a list that becomes empty proves nothing, and what it shows again closes the gap', async () => {
  const it = await setUpPolled();
  const all = it.events.splice(0);
  const lost = await it.next();
  expect(lost).toMatchObject({ proven: false, gapsOpened: [{ reason: 'removed', types: EVENT_TYPES }] });
  expect(lost.diagnosis).toContain('may have removed events from the list');
  expect(await it.next()).toMatchObject({
    proven: false,
    gapsOpened: [],
    gaps: [{ until: expect.anything() }],
  });
  it.events.push(...all);
  expect(await it.next()).toMatchObject({ proven: true, gaps: [], gapsClosed: [{ reason: 'removed' }] });
});

test('a list that loses its oldest events, which the service keeps no longer, proves what is newer', async () => {
  const it = await setUpPolled();
  it.events.splice(20);
  expect(await it.next()).toMatchObject({ proven: true, gaps: [] });
});

/** A service that creates events each minute and is polled each minute. */
function setUpMinutes(...given: Parameters<typeof setUp>) {
  const it = setUp(...given);
  const since = new Date(START);
  let count = 0;
  const create = (at: number) => {
    const type = EVENT_TYPES[count % 5];
    it.events.push(listed(`e${count++}`, at, type));
  };
  /** Polls each minute for so long, after `step` has had its turn. */
  const run = async (minutes: number, step: () => void, options: Parameters<typeof it.poll>[0] = {}) => {
    const reports = [];
    for (let minute = 0; minute < minutes; minute++) {
      it.clock.now += MINUTE_MS;
      step();
      reports.push(await it.poll({ since, ...options }));
    }
    return reports;
  };
  return { ...it, create, run, one: () => create(it.clock.now - 20_000) };
}

test('a list that loses its newest events, as after the failover of a database, is noticed once they cannot be listed late', async () => {
  const it = setUpMinutes();
  await it.run(60, it.one);
  it.events.push(listed('unseen', it.clock.now - 1_000));
  it.events.splice(-5);
  const later = await it.run(90, it.one);
  const [gap, ...more] = later.at(-1)?.gaps ?? [];
  expect(gap).toMatchObject({ reason: 'removed' });
  expect(Date.parse(gap?.from ?? '')).toBeLessThan(START + 60 * MINUTE_MS - 1_000);
  expect(Date.parse(gap?.until ?? '')).toBeGreaterThan(START + 60 * MINUTE_MS - 1_000);
  expect(more).toEqual([]);
});

test('a declared listMax that is right does not hide that the list lost newer events and kept older ones', async () => {
  const it = setUpMinutes();
  await it.run(60, it.one, { listMax: 1_000 });
  it.clock.now += 30 * MINUTE_MS;
  for (let minute = 1; minute < 30; minute++) it.create(it.clock.now - minute * MINUTE_MS);
  it.events.splice(40);
  const later = await it.run(60, it.one, { listMax: 1_000 });
  expect(later[0]?.gapsOpened).toMatchObject([{ reason: 'removed' }]);
  expect(later.flatMap(({ problems }) => problems)).toEqual([]);
  expect(later.flatMap(({ gapsClosed }) => gapsClosed)).toEqual([]);
});

test('a declared listMax that is too high leaves the gap of a burst that was cut open, and is named', async () => {
  const it = setUpMinutes({ cap: 100 });
  await it.run(60, it.one, { listMax: 1_000 });
  for (let count = 0; count < 300; count++)
    it.events.push(listed(`burst-${count}`, it.clock.now + count * 100));
  const later = await it.run(60, it.one, { listMax: 1_000 });
  expect(later.flatMap(({ problems }) => problems)).toMatchObject([{ code: 'ERR_LIST_MAX' }]);
  expect(later.flatMap(({ gapsOpened }) => gapsOpened)).toHaveLength(1);
  expect(later.flatMap(({ gapsClosed }) => gapsClosed)).toEqual([]);
});

test('a list that stays empty for longer than the account is old proves nothing while it is empty', async () => {
  let isEmpty = false;
  const it = setUpMinutes({ serve: (events, { limit }) => (isEmpty ? [] : events.slice(0, limit)) });
  await it.run(15, it.one);
  isEmpty = true;
  const empty = await it.run(60, it.one);
  expect(empty.slice(7).map(({ proven }) => proven)).toEqual(empty.slice(7).map(() => false));
  isEmpty = false;
  expect((await it.run(1, it.one))[0]).toMatchObject({ proven: true, gaps: [] });
});

const ofType = (events: readonly UnknownEvent[], type: string | undefined) =>
  events.filter((event) => type === undefined || event.type === type);

test.each<[string, Parameters<typeof setUp>[0]]>([
  [
    'that is sorted by type, cut, and filtered then',
    {
      serve: (events, { type, limit }) =>
        ofType(
          events
            .toSorted((a, b) => (a.type < b.type ? -1 : a.type > b.type ? 1 : 0))
            .slice(0, Math.min(limit, 100)),
          type,
        ),
    },
  ],
  [
    'that is sorted by type and does not filter',
    {
      serve: (events, { limit }) =>
        events
          .toSorted((a, b) => (a.type < b.type ? -1 : a.type > b.type ? 1 : 0))
          .slice(0, Math.min(limit, 100)),
    },
  ],
  [
    'whose filter hides a type',
    {
      order: 'oldest',
      serve: (events, { type, limit }) =>
        type === 'redeem.failed' ? [] : ofType(events, type).slice(0, Math.min(limit, 100)),
    },
  ],
])('a list %s is never proven beyond what it shows', async (_, given) => {
  const it = setUpMinutes(given);
  const sixAMinute = () => {
    for (let count = 0; count < 6; count++) it.create(it.clock.now - 50_000 + count * 1_000);
  };
  await it.run(atNight(200, 120), sixAMinute);
  await it.run(1, sixAMinute);
  const known = new Set(it.handled);
  const missing = it.events
    .filter(({ id }) => !known.has(id))
    .map(({ created_at }) => Date.parse(created_at));
  const settled = missing.filter((at) => at <= it.clock.now - 5 * MINUTE_MS);
  expect(settled.length).toBeGreaterThan(100);
  const gaps = await listGaps(it.inbox);
  const isInGap = (at: number) =>
    gaps.some(({ from, until }) => at > Date.parse(from) && at <= Date.parse(until));
  expect(settled.filter((at) => !isInGap(at))).toEqual([]);
});

test('a quiet account whose service removes its last events for their age has no gap', async () => {
  const it = setUpMinutes();
  const keepFor = (ms: number) => {
    it.events.splice(
      0,
      it.events.length,
      ...it.events.filter(({ created_at }) => Date.parse(created_at) > it.clock.now - ms),
    );
  };
  await it.run(60, () => {
    it.one();
    keepFor(20 * MINUTE_MS);
  });
  const later = await it.run(120, () => keepFor(20 * MINUTE_MS));
  expect(later.flatMap(({ gapsOpened }) => gapsOpened)).toEqual([]);
  expect(later.at(-1)?.proven).toBe(true);
});

test('events listed late, more than one answer shows, leave a gap until a poll has read them all', async () => {
  const it = await setUpPolled();
  const minute = (index: number) => START - DAY_MS + (index + 1) * MINUTE_MS;
  const late = Array.from({ length: 400 }, (_, index) => listed(`late-${index}`, minute(index + 900)));
  it.events.push(...late);
  const first = await it.next();
  expect(first).toMatchObject({ proven: false, doubtful: true, gapsOpened: [{ reason: 'late' }] });
  let found = first.new;
  expect(found).toBeLessThan(400);
  // Each poll reads twice as far back as the last one.
  for (let polls = 0; polls < 4; polls++) found += (await it.next()).new;
  expect(found).toBe(400);
  expect(await it.next()).toMatchObject({ proven: true, doubtful: false, gaps: [], new: 0 });
});

test.each([
  ['with its oldest event', history(1), START - DAY_MS],
  ['if it is empty, up to when the first poll could judge it', [], START - 5 * MINUTE_MS],
] as const)(
  'a start date before anything that the list shows: the diagnosis tells where the list begins, %s',
  async (_, events, from) => {
    const it = setUp();
    it.events.push(...events);
    const since = new Date(START - 100 * DAY_MS);
    await it.poll({ since });
    it.clock.now += 10 * MINUTE_MS;
    const { proven, diagnosis } = await it.poll({ since });
    expect(proven).toBe(true);
    const times = [since.getTime(), START + 5 * MINUTE_MS, from];
    expect(diagnosis.match(/[\d-]+T[\d:.]+Z/g)).toEqual(times.map((time) => new Date(time).toISOString()));
  },
);
