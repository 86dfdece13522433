/** Lists that lose events which they showed, and lists that show events later than the lag. */
import { EVENT_TYPES } from 'stablehooks';
import { expect, test } from 'vitest';
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
  expect(lost.diagnosis).toContain('can have left the list');
  expect(await it.next()).toMatchObject({
    proven: false,
    gapsOpened: [],
    gaps: [{ until: expect.anything() }],
  });
  it.events.push(...all);
  expect(await it.next()).toMatchObject({ proven: true, gaps: [], gapsClosed: [{ reason: 'removed' }] });
});

test('a list that loses events from its middle opens one gap, which a list without them does not close', async () => {
  const it = await setUpPolled();
  it.events.splice(3, 5);
  expect(await it.next()).toMatchObject({ proven: false, gapsOpened: [{ reason: 'removed' }] });
  expect(await it.next()).toMatchObject({ gapsOpened: [], gapsClosed: [], gaps: [{ reason: 'removed' }] });
  expect(await it.next()).toMatchObject({ proven: true, gapsClosed: [], gaps: [{ reason: 'removed' }] });
});

test('a list that loses its oldest events, which the service keeps no longer, proves what is newer', async () => {
  const it = await setUpPolled();
  it.events.splice(20);
  expect(await it.next()).toMatchObject({ proven: true, gaps: [] });
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

test('events listed late that a complete list shows leave no gap', async () => {
  const it = await setUpPolled();
  it.events.push(listed('late', START - 60 * MINUTE_MS));
  expect(await it.next()).toMatchObject({ proven: true, doubtful: true, late: 1, gaps: [] });
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
    expect(diagnosis).toBe(
      `Every event created from ${since.toISOString()} up to ${new Date(START + 5 * MINUTE_MS).toISOString()} that the service still lists is in the inbox. It has listed none from before ${new Date(from).toISOString()}.`,
    );
  },
);
