/** One poll: what waits in the inbox is run, the list is surveyed, and what it shows is dispatched. */
import { isKnownEvent } from '../core/events.js';
import type { PollState } from '../core/inbox.js';
import type { OutcomeCounts } from '../receiver/outcome.js';
import { dispatchEvents } from './dispatch.js';
import { type Arrival, createIntake, type Intake } from './intake.js';
import type { PollerRules } from './options.js';
import { createdAt } from './page.js';
import { acquirePollLease, type PollLease } from './poll-lease.js';
import { type Problem, problemOf, toProblem } from './problem.js';
import { NOTHING, type PollReport } from './report.js';
import { count, describe } from './summary.js';
import { type Survey, surveyList } from './survey.js';

/** What {@link poll} needs beside the rules. */
export interface PollContext {
  /** Names this poller among the processes that share the inbox. */
  readonly holder: string;
  readonly signal: AbortSignal;
}

/** Polls once. Never rejects: what failed is in the report. */
export async function poll(rules: PollerRules, { holder, signal }: PollContext): Promise<PollReport> {
  const started = performance.now();
  const report = await run(rules, { holder, signal }).catch(toFailure);
  return { ...report, durationMs: Math.round(performance.now() - started) };
}

async function run(rules: PollerRules, { holder, signal }: PollContext): Promise<PollReport> {
  const startedAt = rules.now();
  let lease: PollLease | null;
  try {
    lease = await acquirePollLease(rules.receiver.inbox, { holder, leaseMs: rules.leaseMs });
  } catch (error) {
    return { ...NOTHING, problems: [toProblem(error, { code: 'ERR_INBOX_FAILED' })] };
  }
  if (lease === null) return { ...NOTHING, problems: [problemOf('ERR_POLL_BUSY')] };
  return pollUnder(lease, { rules, signal, startedAt }).finally(lease.drop);
}

async function pollUnder(
  lease: PollLease,
  {
    rules,
    signal,
    startedAt,
  }: { readonly rules: PollerRules; readonly signal: AbortSignal; readonly startedAt: number },
): Promise<PollReport> {
  const problems: Problem[] = [];
  const halt = AbortSignal.any([signal, lease.lost]);
  const redriven = await redrive(rules, { halt, problems });

  const first = lease.state.watermark === null;
  const watermark = lease.state.watermark ?? Math.min(rules.since ?? startedAt, startedAt);
  const intake = createIntake({ ...rules, signal: halt });
  const survey = await drive(intake, { ...rules, watermark, first, startedAt });
  // A poll that was stopped has found nothing out, a gap included.
  const open = halt.aborted ? [] : survey.open;
  if (survey.since > survey.present) problems.push(problemOf('ERR_HORIZON_AHEAD'));
  if (!first && isLate(intake.arrivals, watermark)) problems.push(problemOf('ERR_EVENT_LATE'));

  const waiting = [...intake.arrivals.values()].filter(isWaiting);
  const dispatched = await dispatchEvents(waiting, { ...rules, signal: halt });
  if (signal.aborted) problems.push(problemOf('ERR_POLL_STOPPED'));

  // The largest answer proves nothing later on (caps shrink), but tells operators how large the cap is at least.
  const largest = Math.max(lease.state.largest, intake.largest());
  const saved = await save(lease, { state: { watermark: survey.watermark, largest }, problems });
  return {
    ...NOTHING,
    ...count(intake.arrivals, { dispatched, redriven }),
    ...describe({ ...survey, open, ...(!saved && { proven: false, watermark: survey.since }) }),
    requests: intake.requests(),
    problems: [...problems, ...intake.problems, ...dispatched.problems],
    redriven,
  };
}

async function redrive(
  { receiver }: PollerRules,
  { halt, problems }: { readonly halt: AbortSignal; readonly problems: Problem[] },
): Promise<OutcomeCounts | null> {
  try {
    return await receiver.redrive({ signal: halt });
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
    return null;
  }
}

/** Answers the survey's questions until it has none left. */
async function drive(intake: Intake, rules: Parameters<typeof surveyList>[0]): Promise<Survey> {
  const survey = surveyList(rules);
  let step = survey.next();
  while (!step.done) step = survey.next(await intake.ask(step.value));
  return step.value;
}

/**
 * New, or left over from a poll that did not get that far. What failed waits for its time and for `redrive`:
 * a list that shows it every minute must not use up its attempts while something is down for an hour.
 */
function isWaiting({ event, result }: Arrival): boolean {
  return isKnownEvent(event) && (result === 'new' || result === 'received');
}

/** Whether something new lies behind the watermark, where everything should have been known. */
function isLate(arrivals: Intake['arrivals'], watermark: number): boolean {
  return [...arrivals.values()].some(
    ({ event, result }) => result === 'new' && isKnownEvent(event) && createdAt(event) <= watermark,
  );
}

async function save(
  lease: PollLease,
  { state, problems }: { readonly state: PollState; readonly problems: Problem[] },
): Promise<boolean> {
  try {
    const saved = await lease.release(state);
    if (!saved) problems.push(problemOf('ERR_LEASE_LOST'));
    return saved;
  } catch (error) {
    problems.push(toProblem(error, { code: 'ERR_INBOX_FAILED' }));
    return false;
  }
}

function toFailure(error: unknown): PollReport {
  return { ...NOTHING, problems: [toProblem(error, { code: 'ERR_CONFIG_INVALID' })] };
}
