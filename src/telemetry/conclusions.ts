/** The results of passes and polls, as metrics and as attributes of their spans. */
import { type Span, SpanStatusCode } from '@opentelemetry/api';
import { createdAtMs } from '../core/events.js';
import type { PollSummary } from '../receiver/layers.js';
import type { Outcome, OutcomeKind } from '../receiver/outcome.js';
import { type Parts, setError } from './steps.js';

/** Outcomes that need a person. Their spans have the status ERROR. */
const ERRORS: ReadonlySet<OutcomeKind> = new Set<OutcomeKind>(['failed', 'unavailable', 'dead']);

export function describeOutcome({ attributes }: Parts, span: Span, outcome: Outcome): void {
  const { kind, event, error, attempt, secretIndex } = outcome;
  span.updateName(attributes.step('receive', event).name);
  span.setAttributes(attributes.outcome(outcome));
  if (event !== undefined) span.setAttribute('messaging.message.id', event.id);
  if (secretIndex !== undefined) span.setAttribute('stablehooks.secret.index', secretIndex);
  if (attempt !== undefined) span.setAttribute('stablehooks.attempt', attempt);
  if (error !== undefined && ERRORS.has(kind)) span.setStatus({ code: SpanStatusCode.ERROR });
}

/** @param isFirst - whether it is the first pass of its delivery. */
export function measureOutcome(parts: Parts, outcome: Outcome, isFirst: boolean): void {
  const { attributes, instruments, runtime } = parts;
  const { kind, event, attempt, secretIndex } = outcome;
  const { outcomes, secretMatches, eventAge, attempts } = instruments();
  const measured = attributes.outcome(outcome);
  outcomes.add(1, measured);
  if (secretIndex !== undefined && isFirst) secretMatches.add(1, attributes.secret(secretIndex));
  if (event !== undefined && (kind === 'handled' || kind === 'ignored')) {
    // Clocks differ: an age is at least 0.
    eventAge.record(Math.max(0, runtime.now() - createdAtMs(event)) / 1_000, measured);
  }
  if (attempt !== undefined && (kind === 'handled' || kind === 'dead')) attempts.record(attempt, measured);
}

export function concludePoll(
  { attributes, instruments }: Parts,
  summary: PollSummary,
  span: Span | undefined,
): void {
  const { polls, recovered } = instruments();
  const result = resultOf(summary);
  polls.add(1, { ...attributes.common, 'stablehooks.poll.result': result });
  recovered.add(summary.recovered, attributes.common);
  span?.setAttributes({
    'stablehooks.poll.result': result,
    'stablehooks.poll.recovered': summary.recovered,
    'stablehooks.poll.gaps': summary.gaps.length,
  });
  const [problem] = summary.problems;
  if (problem !== undefined && result === 'unproven') setError(span, problem.code);
}

function resultOf({
  proven,
  unconfirmed,
  problems,
}: PollSummary): 'proven' | 'unconfirmed' | 'unproven' | 'busy' | 'stopped' {
  if (proven) return 'proven';
  if (unconfirmed) return 'unconfirmed';
  const codes = problems.map(({ code }) => code);
  if (codes.includes('ERR_POLL_BUSY')) return 'busy';
  return codes.includes('ERR_POLL_STOPPED') ? 'stopped' : 'unproven';
}
