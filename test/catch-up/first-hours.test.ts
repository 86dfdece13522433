/** The first hours of a poller with its defaults: what it reports, and when it raises an alarm. */
import { describe, expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { type RunOptions, type RunResult, runScenario } from './scenarios-run.js';
import { arrivals, burst, DAY, MINUTE, ofOneType, SECOND, type ServiceEvent } from './scenarios-service.js';

const START = Date.parse('2026-03-02T09:00:00Z');
/** The first hour is judged, and what follows raises no other alarm. */
const MINUTES = atNight(150, 80);
const NOW = { from: START, until: START + MINUTES * MINUTE };
/** Where the watermark of a healthy poller ends: the lag and a minute before the last poll. */
const PROVEN = MINUTES - 6;

const at = (minutes: number) => START + minutes * MINUTE;
const mixed = (size: number, minute: number) => burst({ at: at(minute), size, pushed: true });
const single = (size: number, minute: number) => ofOneType(mixed(size, minute), 'transfer.settled');

/** Events since a day before the first poll. */
function traffic(perDay: number, { pushed = true } = {}): readonly ServiceEvent[] {
  return arrivals({ seed: 7, perDay, from: START - DAY, until: NOW.until, pushed });
}

/** An event every half hour, and many before. */
const growing = [...single(200, -600), ...[1, 30, 60, 90, 120].flatMap((minute) => single(1, minute))];

interface Row {
  readonly title: string;
  readonly run: Partial<RunOptions> & Pick<RunOptions, 'events'>;
  /** What all polls from the sixth minute to the end of the first hour say; `unconfirmed`: until the burst is over. */
  readonly verdict: 'proven' | 'unconfirmed' | 'unread';
  /** The minute of the only alarm, or none. */
  readonly alarm: number | null;
  /** The watermark at the end, in minutes after the first poll, rounded down. */
  readonly provenUntil: number;
}

const quiet = (row: Omit<Row, 'verdict' | 'alarm' | 'provenUntil'>): Row => ({
  ...row,
  ...{ verdict: 'proven', alarm: null, provenUntil: PROVEN },
});

/** A list of one type that could be exactly cut. */
const doubtful = (title: string, events: readonly ServiceEvent[]): Row => ({
  ...{ title, run: { events }, verdict: 'unconfirmed', alarm: null, provenUntil: PROVEN },
});

const ROWS: readonly Row[] = [
  quiet({ title: 'an empty account', run: { events: [] } }),
  quiet({ title: 'a burst of one type of 49', run: { events: single(49, 1.5) } }),
  doubtful('a burst of one type of 50', single(50, 1.5)),
  doubtful('a burst of one type of 137', single(137, 1.5)),
  doubtful('a burst of one type of 200', single(200, 1.5)),
  doubtful('a burst of one type of 1,000', single(1_000, 1.5)),
  quiet({ title: 'a burst with listMax', run: { events: single(201, 1.5), settings: { listMax: 500 } } }),
  quiet({ title: 'a mixed burst before the first poll', run: { events: mixed(52, -1) } }),
  quiet({ title: 'a larger mixed burst before the first poll', run: { events: mixed(300, -1) } }),
  quiet({ title: 'a mixed burst after the first poll', run: { events: mixed(200, 1.5) } }),
  quiet({ title: '60 events a day', run: { events: traffic(60) } }),
  quiet({ title: '300 events a day, oldest first', run: { events: traffic(300), window: 'oldest' } }),
  quiet({ title: '600 events a day, capped at 50', run: { events: traffic(600), cap: 50 } }),
  quiet({ title: '2,000 events a day, capped at 100', run: { events: traffic(2_000), cap: 100 } }),
  quiet({ title: '5,000 events a day, capped at 1,000', run: { events: traffic(5_000), cap: 1_000 } }),
  quiet({ title: 'dead push', run: { events: traffic(600, { pushed: false }) } }),
  quiet({ title: 'a service that became quiet', run: { events: mixed(500, -300) } }),
  {
    title: 'one type, oldest first, an event each half hour',
    run: { events: growing, window: 'oldest' },
    ...{ verdict: 'unconfirmed', alarm: null, provenUntil: PROVEN },
  },
  {
    title: 'a dead service from the first poll on',
    run: { events: traffic(60), outages: [NOW] },
    ...{ verdict: 'unread', alarm: null, provenUntil: Number.NaN },
  },
  {
    title: 'a dead poller after 30 minutes: only health shows that',
    run: { events: traffic(60), down: [{ from: at(30), until: NOW.until }] },
    ...{ verdict: 'proven', alarm: null, provenUntil: 24 },
  },
];

const SENTENCES = {
  proven: /^Every event created from 2026-03-02T09:00:00.000Z up to \S+ is/,
  unconfirmed: /^The list may have been cut off: it returned \d+ events regardless of the requested limit\./,
  unread: /could not be read/,
};

/** The polls of the first hour, after the first events can be judged. */
function firstHour({ polls }: RunResult) {
  return polls.filter(({ time }) => time > at(6) && time <= at(60)).map(({ report }) => report);
}

test.each(ROWS)('$title: $verdict, alarm at minute $alarm', async ({ run, verdict, alarm, provenUntil }) => {
  const result = await runScenario({ ...NOW, ...run });
  expect(result.faults).toEqual([]);
  const reports = firstHour(result);
  for (const report of reports) {
    const { proven, unconfirmed } = report;
    const said = proven && verdict === 'unconfirmed' ? 'proven' : verdict;
    expect(report.diagnosis).toMatch(SENTENCES[said]);
    expect({ proven, unconfirmed }).toEqual({
      proven: said === 'proven',
      unconfirmed: said === 'unconfirmed',
    });
  }
  expect(reports.some(({ unconfirmed }) => unconfirmed)).toBe(verdict === 'unconfirmed');
  // The sentence is the same from poll to poll, but for the watermark.
  const sentences = reports.map(({ diagnosis }) =>
    diagnosis.replace(/up to \S+|, except in .*|returned \d+ events/, ''),
  );
  expect(new Set(sentences).size).toBeLessThanOrEqual(verdict === 'unconfirmed' ? 2 : 1);
  const alarms = result.gapCalls.filter(({ state }) => state === 'open');
  expect(alarms.map(({ openedAt }) => Math.round((Date.parse(openedAt) - START) / MINUTE))).toEqual(
    alarm === null ? [] : [alarm],
  );
  const { watermark } = result.polls.at(-1)?.report ?? {};
  const minutes =
    watermark === null ? Number.NaN : Math.floor((Date.parse(watermark ?? '') - START) / MINUTE);
  expect(minutes).toBe(provenUntil);
});

test('before the first events can be judged, nothing is called proven', async () => {
  const { polls } = await runScenario({ ...NOW, until: at(4), events: mixed(200, 1.5) });
  for (const { report } of polls) expect(report.diagnosis).toMatch(/^Nothing is proven yet/);
});

describe('advice is one number, and with it the next polls are proven', () => {
  const jitter = ofOneType(
    arrivals({
      seed: 3,
      perDay: 12_000,
      from: START - DAY,
      until: at(180),
      jitterMs: 40 * SECOND,
    }),
    'transfer.settled',
  );
  const advice: readonly (readonly [string, Partial<RunOptions> & Pick<RunOptions, 'events'>])[] = [
    ['disorderMs', { events: jitter, order: 'listed', cap: 200 }],
    ['maxLimit', { events: traffic(20_000), settings: { maxLimit: 50 } }],
    ['lagMs', { events: traffic(12_000), cap: 60 }],
  ];
  test.each(advice)('%s', async (name, run) => {
    const { changes, polls, faults } = await runScenario({ ...NOW, ...run, operated: true });
    expect(faults).toEqual([]);
    expect(changes.map(({ change }) => change.replace(/:.*/, ''))).toEqual([name]);
    const later = polls.filter(({ time }) => time > (changes[0]?.time ?? 0) + 10 * MINUTE);
    const proven = later.filter(({ report }) => report.proven).length;
    expect(proven / later.length).toBeGreaterThan(0.9);
  });
});
