import { countOf } from '../core/count.js';
import type { SurveyResult } from './conclude.js';
import { describeReason, describeUnconfirmed, exceptIn, toIso } from './gap-text.js';
import type { Advance } from './gaps.js';
import type { PollerSettings } from './options.js';

interface Diagnosis {
  readonly survey: SurveyResult;
  readonly advance: Advance;
  readonly settings: Pick<PollerSettings, 'lagMs' | 'disorderMs' | 'intervalMs' | 'maxLimit' | 'listMax'>;
}

/** The advice must stay the same as long as the situation does. */
export function diagnose(diagnosis: Diagnosis): string {
  const { survey, advance, settings } = diagnosis;
  if (!survey.answered) {
    return "The service's event list could not be read, or its events could not be stored. Nothing is proven, and the watermark has not moved.";
  }
  if (advance.reason === 'unconfirmed' && !advance.proven) return explainUnconfirmed(diagnosis);
  if (!advance.proven) return explainGap(diagnosis);
  const { since, watermark, gaps, seen } = advance.state;
  if (watermark === null || since === null || watermark <= since) {
    return `Nothing is proven yet: events younger than ${settings.lagMs} ms (lagMs) may not be in the list yet.`;
  }
  const but = exceptIn(gaps);
  const isOlder = seen?.shownFrom !== undefined && seen.shownFrom > since;
  const [that, then] = isOlder
    ? [' that the service still lists', ` The service listed no event from before ${toIso(seen.shownFrom)}.`]
    : ['', ''];
  return `Every event created from ${toIso(since)} up to ${toIso(watermark)}${that} is in the inbox${but}.${then}`;
}

function explainUnconfirmed({ survey, settings: { maxLimit, listMax = 0 } }: Diagnosis): string {
  const { size, limit } = survey.verdicts[0] ?? { size: 0, limit: maxLimit };
  if (size >= limit)
    return `The list returned as many events as maxLimit allows (${maxLimit}), so there may be more. Raise maxLimit.`;
  if (size < listMax)
    return `The list returned exactly ${size} events, fewer than listMax (${listMax}). If the service never returns more, listMax is too high and hides events, so remove that option. A larger response would settle the question.`;
  return describeUnconfirmed(size);
}

/** The share of the current window that advice relies on, because the rate of events varies. */
const PLANNED_SHARE = 0.7;

/** If more intervals than this have passed since the last poll, the poller was down or does not run continuously. */
const OUTAGE_INTERVALS = 3;

function explainGap({ survey, advance, settings }: Diagnosis): string {
  const { reason, state } = advance;
  const { lagMs, disorderMs, intervalMs, maxLimit } = settings;
  const [whole] = survey.verdicts;
  if (whole === undefined) return describeReason(reason);
  const { size, limit, windowMs, disorderMs: measuredMs } = whole;
  const isCutByUs = size >= limit && limit >= maxLimit;
  if (reason === 'oldest-first' && !isCutByUs) {
    return `The list returns only its oldest ${size} events, so new events never appear in it. Ask the service how to list the newest events. Until then, rely on push.`;
  }
  if (reason === 'no-order' && measuredMs !== null && measuredMs > disorderMs && measuredMs < lagMs) {
    return `The list is incomplete, and neighbouring events are out of order by more than disorderMs. Set disorderMs to ${ceilStep(measuredMs * 1.5)}.`;
  }
  if (reason === 'oldest-first' || (reason === 'no-order' && isCutByUs)) {
    return `The list contains more events than maxLimit allows. Set maxLimit to ${maxLimit * 10}.`;
  }
  if (reason !== 'not-reached' || windowMs === null) return describeReason(reason);

  const elapsedMs = survey.settledAt - survey.watermark;
  const plannedMs = windowMs * PLANNED_SHARE;
  const pace = `${size} events cover about ${toSpan(windowMs)} at this rate, so poll at intervals of at most ${toSpan(windowMs / 2)}`;
  const neededMs = 2 * lagMs + disorderMs + intervalMs;
  if (elapsedMs > OUTAGE_INTERVALS * intervalMs && plannedMs > neededMs) {
    const what = survey.watermark === state.since ? 'the start date' : 'the last poll';
    return `The list does not reach back to ${what}. Its ${pace}. Run reconcile for the gap, and acknowledge the gap if nothing is missing.`;
  }
  const what = `The newest ${size} events of the list do not reach back far enough to cover lagMs and the time between two polls.`;
  if (isCutByUs) {
    return `${what} Set maxLimit to ${ceilStep(maxLimit * Math.max(2, neededMs / Math.max(1, plannedMs)))}.`;
  }
  const lowerMs = floorStep((plannedMs - intervalMs - disorderMs) / 2);
  if (lowerMs >= 1_000 && lowerMs < lagMs) return `${what} Set lagMs to ${lowerMs}.`;
  return `${what} These ${pace}, or ask the service for more events per response.`;
}

function toSpan(ms: number): string {
  const [unit, noun] =
    ms >= 3_600_000 ? [3_600_000, 'hour'] : ms >= 60_000 ? [60_000, 'minute'] : [1_000, 'second'];
  return countOf(floorStep(ms / unit), noun);
}

/** Rounds down to 1, 2, 5, 10, 20, 50, …, so that the advice does not change at every poll. */
function floorStep(value: number): number {
  const unit = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return unit * ([5, 2].find((step) => step * unit <= value) ?? 1);
}

function ceilStep(value: number): number {
  const floor = floorStep(value);
  return floor >= value ? floor : floorStep(floor * 2.5);
}
