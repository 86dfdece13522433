/**
 * The proofs that the poller must find, one scenario per kind of list: runs of hours and days on a virtual clock, with a poll each
 * minute, and 60 % of the events of one type.
 */
import type { PollReport } from 'stablehooks/catch-up';
import { type Poll, type RunOptions, type RunResult, runScenario } from './scenarios-run.js';
import {
  arrivals,
  backdate,
  burst,
  businessHours,
  DAY,
  HOUR,
  MINUTE,
  SECOND,
  type ServiceEvent,
  type Traffic,
} from './scenarios-service.js';

/** One kind of list. */
export interface Scenario {
  readonly title: string;
  readonly required: string;
  /** Resolves with the requirements that do not hold, each in words. */
  run(): Promise<readonly string[]>;
}

/** A Monday. */
const START = Date.parse('2026-03-02T00:00:00Z');
const at = (hours: number) => START + hours * HOUR;
/** The first poll, when the list has a history of six hours. */
const FIRST = at(6);

/** Events from the start of the history to an hour of the run. */
function traffic(
  seed: number,
  options: Omit<Traffic, 'seed' | 'from' | 'until'> & { readonly hours: number },
) {
  const { hours, ...rest } = options;
  return arrivals({ seed, from: START, until: at(hours), ...rest });
}

const span = (hours: number) => ({ from: FIRST, until: at(hours) });

/** The polls that start at or after a time. */
const since = ({ polls }: RunResult, time: number) => polls.filter((poll) => poll.time >= time);

const isProven = ({ report }: Poll) => report.proven;

function shareProven(polls: readonly Poll[]): number {
  return polls.length === 0 ? 0 : polls.filter(isProven).length / polls.length;
}

function mean(polls: readonly Poll[], value: (poll: Poll) => number): number {
  return polls.reduce((sum, poll) => sum + value(poll), 0) / Math.max(1, polls.length);
}

const requestsOf = ({ report }: Poll) => report.requests;
const opened = ({ gapCalls }: RunResult) => gapCalls.filter(({ state }) => state === 'open').length;
const sum = ({ polls }: RunResult, count: (report: PollReport) => number) =>
  polls.reduce((total, { report }) => total + count(report), 0);

/** The conditions that are false, and what contradicts the truth. */
function unmet(
  run: Pick<RunResult, 'faults'>,
  conditions: Readonly<Record<string, boolean>>,
): readonly string[] {
  return [...Object.keys(conditions).filter((name) => conditions[name] !== true), ...run.faults];
}

/** An outage of the application, after which the poller must open one gap and go on. */
async function afterOutage(options: RunOptions, end: number): Promise<readonly string[]> {
  const run = await runScenario(options);
  const [first, ...later] = since(run, end);
  return unmet(run, {
    'the first poll after the outage opens the gap': first?.report.gapsOpened.length === 1,
    'one gap is opened': opened(run) === 1,
    'the gap is logged once': run.lines.filter((line) => line.includes('may be missing')).length === 1,
    'every later poll is proven': shareProven(later) === 1,
    'at most 3 requests per poll': mean(later, requestsOf) <= 3,
    'events are unseen, so that a gap is right': run.unseen.length > 0,
  });
}

/** A list of which nothing is unseen, and an operator who does what the diagnosis says. */
async function operated(options: RunOptions, required: number): Promise<readonly string[]> {
  const run = await runScenario({ ...options, operated: true });
  const lastChange = run.changes.at(-1)?.time ?? options.from;
  const polls = since(run, lastChange + 1);
  const share = shareProven(polls);
  return unmet(run, {
    [`a share of at least ${required} is proven`]: share >= required,
    'at least three days after the last change': options.until - lastChange >= 3 * DAY,
  });
}

/** The event that is listed first after a time is created earlier. */
function backdateOne(
  events: readonly ServiceEvent[],
  { after, byMs }: { readonly after: number; readonly byMs: number },
): { readonly events: readonly ServiceEvent[]; readonly id: string } {
  const index = events.findIndex(({ listedAt }) => listedAt > after);
  const event = events[index];
  if (event === undefined) throw new Error('No event is listed after this time.');
  return { events: events.with(index, backdate(event, byMs)), id: event.event.id };
}

async function lateEvent(): Promise<readonly string[]> {
  const { events, id } = backdateOne(traffic(6, { perDay: 5_000, hours: 30 }), {
    after: at(12),
    byMs: 240 * SECOND,
  });
  const list = { events, order: 'listed', cap: 100 } as const;
  const usual = await runScenario({ ...list, ...span(30) });
  const short = await runScenario({ ...list, ...span(18), settings: { lagMs: MINUTE } });
  const reportsOf = ({ polls }: RunResult) => polls.map(({ report }) => report.ids);
  return unmet(
    { faults: [...usual.faults, ...short.faults] },
    {
      'at least 99 % proven with a lag of 300 s': shareProven(usual.polls) >= 0.99,
      'at least 99 % proven with a lag of 60 s': shareProven(short.polls) >= 0.99,
      'the event is handled': usual.handled.has(id) && short.handled.has(id),
      'the event is reported as new': reportsOf(usual).some((ids) => ids.new.includes(id)),
      'with the lag of 60 s it is reported as late, once':
        reportsOf(short).filter(({ late }) => late.includes(id)).length === 1,
      'nothing else is late': sum(usual, ({ late }) => late) === 0 && sum(short, ({ late }) => late) === 1,
    },
  );
}

async function oldestFirstCapped(): Promise<readonly string[]> {
  const run = await runScenario({
    events: traffic(8, { perDay: 5_000, hours: 12 }),
    window: 'oldest',
    cap: 50,
    ...span(12),
  });
  const lines = run.lines.filter((line) => line.includes('may be missing'));
  const last = run.polls.at(-1)?.report.diagnosis ?? '';
  return unmet(run, {
    'one line is logged': lines.length === 1,
    // Before that the watermark has not left the start date, and nothing can be proven.
    'no poll is proven once the lag has passed': shareProven(since(run, FIRST + 10 * MINUTE)) === 0,
    'the diagnosis says that new events are never shown, and to ask the service and use push':
      /oldest/.test(last) && /50/.test(last) && /service/.test(last) && /push/.test(last),
  });
}

async function oldestFirstUncapped(): Promise<readonly string[]> {
  const run = await runScenario({
    events: traffic(9, { perDay: 5_000, hours: 50 }),
    window: 'oldest',
    from: at(48),
    until: at(48.25),
    settings: { maxLimit: 100_000 },
  });
  const most = Math.max(...run.polls.map(requestsOf));
  const later = run.polls.slice(run.polls.findIndex((poll) => requestsOf(poll) === most) + 1);
  return unmet(run, {
    'every poll is proven': shareProven(run.polls) === 1,
    'the limit is found in one poll': later.length >= 5,
    // The whole list, each type, the whole list again and two probes: no smaller limits on the way.
    'at most 9 requests per poll from then on': later.every((poll) => requestsOf(poll) <= 9),
  });
}

async function freshInbox(): Promise<readonly string[]> {
  const events = [
    ...traffic(13, { perDay: 5_000, pushed: true, hours: 9 }),
    // Just before the first poll, whose page it fills, and between two polls.
    ...burst({ at: FIRST - 5 * SECOND, size: 120, pushed: true }),
    ...burst({ at: FIRST + 10 * MINUTE - 10 * SECOND, size: 120, pushed: true }),
  ];
  const run = await runScenario({ events, cap: 200, ...span(9) });
  const unseen = sum(run, ({ deliveredButUnseen }) => deliveredButUnseen);
  const late = sum(run, (report) => report.late);
  const problems = sum(run, (report) => report.problems.length);
  return unmet(run, {
    'no event is called delivered but unseen': unseen === 0,
    'no event is late': late === 0,
    'no problem': problems === 0,
    'no gap': opened(run) === 0,
  });
}

export const SCENARIOS: readonly Scenario[] = [
  {
    title: 'newest first, cap 100, 5,000/day, then a 6 h outage',
    required: 'one gap, reported once; proven again from the next poll; ≤ 3 requests per poll',
    run: () =>
      afterOutage(
        {
          events: traffic(1, { perDay: 5_000, hours: 54 }),
          cap: 100,
          down: [{ from: at(12), until: at(18) }],
          ...span(54),
        },
        at(18),
      ),
  },
  {
    title: 'cap 50, business hours, nothing unseen',
    required: '≥ 95 % with the `lagMs` that the diagnosis names',
    run: () =>
      operated(
        {
          events: traffic(3, { perDay: 5_000, factor: businessHours, hours: 84 }),
          cap: 50,
          ...span(84),
        },
        0.95,
      ),
  },
  {
    title: '20,000/day, cap 100, nothing unseen',
    required: '≥ 95 % with the `lagMs` or interval that the diagnosis names',
    run: () => operated({ events: traffic(4, { perDay: 20_000, hours: 81 }), cap: 100, ...span(81) }, 0.95),
  },
  {
    title: 'listed by id, one event backdated by 240 s',
    required: 'never stuck; the late event is handled and reported',
    run: lateEvent,
  },
  {
    title: 'oldest first, cap 50',
    required: 'one line: new events never appear in this list of its oldest 50; ask the service, use push',
    run: oldestFirstCapped,
  },
  {
    title: 'oldest first, uncapped',
    required: 'proven, starts at the limit that last sufficed',
    run: oldestFirstUncapped,
  },
  {
    title: 'fresh inbox; a burst of 120',
    required: 'none',
    run: freshInbox,
  },
];
