/** The summary: from what a poll found and did to the numbers of its report. */
import type { OutcomeCounts, OutcomeKind } from '../receiver/outcome.js';
import type { Dispatched } from './dispatch.js';
import type { Intake } from './intake.js';
import type { PollReport } from './report.js';
import type { Survey } from './survey.js';

type Counts = Pick<
  PollReport,
  'fetched' | 'new' | 'recovered' | 'deliveredButUnseen' | 'handled' | 'duplicates' | 'failed'
>;

const FAILED: readonly OutcomeKind[] = ['failed', 'dead', 'rejected', 'unavailable'];

/** Counts the events by how the inbox knew them and how their dispatch ended. */
export function count(
  arrivals: Intake['arrivals'],
  { dispatched, redriven }: { readonly dispatched: Dispatched; readonly redriven: OutcomeCounts | null },
): Counts {
  const { ended, recovered } = dispatched;
  const all = [...arrivals.values()];
  const fresh = all.filter(({ result }) => result === 'new');
  return {
    fetched: all.length,
    new: fresh.length,
    recovered,
    deliveredButUnseen: fresh.filter(({ event }) => event.delivered === true).length,
    handled: ended.handled + (redriven?.handled ?? 0),
    duplicates: all.filter(({ result }) => result === 'done').length + ended.duplicate,
    failed: FAILED.reduce((sum, kind) => sum + ended[kind] + (redriven?.[kind] ?? 0), 0),
  };
}

/** Says what the survey proved. */
export function describe(survey: Survey): Pick<PollReport, 'proven' | 'watermark' | 'verdicts' | 'gaps'> {
  const span = { after: toIso(survey.since), before: toIso(survey.present) };
  return {
    proven: survey.proven,
    watermark: toIso(survey.watermark),
    verdicts: survey.findings.map(({ type, size, limit, verdict }) => ({ type, size, limit, verdict })),
    gaps: survey.open.map((type) => ({ type, ...span })),
  };
}

function toIso(time: number): string {
  return new Date(time).toISOString();
}
