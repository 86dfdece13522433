/** Days on which nothing is wrong, and lists that are cut: what is said about them. */
import { listGaps } from 'stablehooks/catch-up';
import { health } from 'stablehooks/health';
import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { DAY_MS, listed, MINUTE_MS, START, setUp } from './virtual-service.js';

const since = new Date(START);

test('a burst of 80 events of one type and then none is healthy for 48 hours, and its span is named without a number to set', async () => {
  const keptMs = DAY_MS;
  const it = setUp({
    serve: (events, { type, limit }) =>
      events
        .filter((event) => type === undefined || event.type === type)
        .filter(({ created_at }) => Date.parse(created_at) > it.clock.now - keptMs)
        .slice(0, limit),
  });
  const said = new Set<string>();
  // What is new happens in the hour of the burst, and when the list loses it, a day later.
  const isCalm = (minute: number) => minute >= 60 && Math.abs(minute - 24 * 60) >= 20;
  const step = (minute: number) => (isCalm(minute) ? atNight(1, 5) : 1);
  for (let minute = 0; minute <= 48 * 60; minute += step(minute)) {
    for (let count = 0; minute > 0 && minute <= 10 && count < 8; count++) {
      it.events.push(listed(`e${minute}-${count}`, it.clock.now - count * 100));
    }
    const report = await it.poll({ since });
    expect(report.gapsOpened).toEqual([]);
    const { healthy, checks } = await health(it.inbox, {
      requirePoll: minute > 10,
      runtime: { now: () => it.clock.now },
    });
    expect({ minute, healthy }).toEqual({ minute, healthy: true });
    said.add(checks.find(({ name }) => name === 'coverage')?.message ?? '');
    it.clock.now += step(minute) * MINUTE_MS;
  }
  expect(it.handled).toHaveLength(80);
  const [span, ...more] = await listGaps(it.inbox);
  expect(more).toEqual([]);
  expect(span).toMatchObject({ state: 'unconfirmed' });
  const message = [...said].at(-1);
  expect(message).toContain(
    'may have been cut off: it returned 80 events regardless of the requested limit. A larger response would settle',
  );
  expect(message).not.toMatch(/listMax|all is well/i);
}, 60_000);

test('a list that is cut at 80 events is unconfirmed until it loses its oldest event, and then its span is a gap', async () => {
  const it = setUp({ cap: 80 });
  for (let count = 0; count < 300; count++) it.events.push(listed(`e${count}`, START + 1_000 + count));
  it.clock.now += 10 * MINUTE_MS;
  const first = await it.poll({ since });
  expect(first).toMatchObject({ unconfirmed: true, gapsOpened: [], gaps: [{ state: 'unconfirmed' }] });
  it.events.push(listed('later', it.clock.now - 8 * MINUTE_MS));
  let told = first.gapsOpened;
  for (let poll = 0; told.length === 0 && poll < 60; poll++) {
    it.clock.now += MINUTE_MS;
    told = (await it.poll({ since })).gapsOpened;
  }
  expect(told[0]).toMatchObject({ state: 'open', reason: 'not-reached', from: first.gaps[0]?.from });
  const runtime = { now: () => it.clock.now };
  expect((await health(it.inbox, { runtime })).healthy).toBe(false);
});

test.each([50, 100, 1_000])(
  'with a listMax that is too high, an answer of exactly %i events proves nothing, and is named',
  async (cap) => {
    const it = setUp({ cap });
    it.clock.now += DAY_MS;
    for (let count = 0; count < 3 * cap; count++) {
      it.events.push(listed(`e${count}`, START + (count * DAY_MS) / (3 * cap)));
    }
    const report = await it.poll({ since, listMax: 5_000 });
    expect(report).toMatchObject({ proven: false, new: cap });
    expect(report.diagnosis).toMatch(
      new RegExp(
        `exactly ${cap} events, fewer than listMax \\(5000\\)\\..* listMax is too high and hides events, so remove that option`,
      ),
    );
  },
);

test.each([
  ['a night', DAY_MS, '2 hours at this rate, so poll at intervals of at most 1 hour'],
  ['half a day', DAY_MS / 2, '2 hours at this rate, so poll at intervals of at most 1 hour'],
])(
  'a list that holds less than %s between two polls says how often to poll, every time',
  async (_, pauseMs, pace) => {
    const it = setUp({ cap: 100 });
    for (let poll = 1; poll <= 4; poll++) {
      for (let at = it.clock.now; at < it.clock.now + pauseMs; at += DAY_MS / 1_000) {
        it.events.push(listed(`e${it.events.length}`, at));
      }
      it.clock.now += pauseMs;
      const { diagnosis } = await it.poll({ since });
      // The first one can be the whole list.
      if (poll === 1) continue;
      expect(diagnosis).toContain(`100 events cover about ${pace}`);
      expect(diagnosis).not.toContain('outage');
    }
  },
);
