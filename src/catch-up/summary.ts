/** The summary: from what a poll found and did to the numbers of its report. */
import type { Outcome, OutcomeKind, Tally } from '../receiver/outcome.js';
import type { Intake } from './intake.js';
import type { PollReport } from './report.js';
import type { Survey } from './survey.js';

type Counts = Pick<
  PollReport,
  'fetched' | 'new' | 'recovered' | 'acknowledgedUnknown' | 'handled' | 'duplicates' | 'failed'
>;

const EFFECTIVE: readonly OutcomeKind[] = ['handled', 'ignored', 'queued'];

const FAILED: readonly OutcomeKind[] = ['failed', 'dead', 'rejected', 'unavailable'];

/** Counts the events by how the inbox knew them and how their dispatch ended. */
export function count(
  arrivals: Intake['arrivals'],
  { outcomes, redriven }: { readonly outcomes: readonly Outcome[]; readonly redriven: Tally | null },
): Counts {
  const all = [...arrivals.values()];
  const fresh = all.filter(({ admission }) => admission === 'new');
  const ended = (...kinds: readonly OutcomeKind[]) => outcomes.filter(({ kind }) => kinds.includes(kind));
  return {
    fetched: all.length,
    new: fresh.length,
    recovered: ended(...EFFECTIVE).filter(
      ({ event }) => event !== undefined && arrivals.get(event.id)?.admission === 'new',
    ).length,
    acknowledgedUnknown: fresh.filter(({ event }) => event.delivered === true).length,
    handled: ended('handled').length + (redriven?.handled ?? 0),
    duplicates: all.filter(({ admission }) => admission === 'done').length + ended('duplicate').length,
    failed: FAILED.reduce((sum, kind) => sum + (redriven?.[kind] ?? 0), ended(...FAILED).length),
  };
}

/** Says what the survey proved. */
export function describe(survey: Survey): Pick<PollReport, 'proven' | 'horizon' | 'verdicts' | 'gaps'> {
  const span = { after: toIso(survey.since), before: toIso(survey.present) };
  return {
    proven: survey.proven,
    horizon: toIso(survey.horizon),
    verdicts: survey.findings.map(({ type, size, limit, verdict }) => ({ type, size, limit, verdict })),
    gaps: survey.open.map((type) => ({ type, ...span })),
  };
}

function toIso(time: number): string {
  return new Date(time).toISOString();
}
