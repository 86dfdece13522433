/**
 * Coverage: what one answer of the list proves, as pure functions over what came back.
 *
 * The model (design section 6): an answer holds `min(|S|, L, C)` of the matching events `S`, where `L` is the
 * limit asked for and `C` a cap of the server that nobody told us, in an order that nobody told us.
 */
import type { EventType } from '../core/events.js';

/** What is asked of the list. */
export interface Question {
  /** `null`: of every type. */
  readonly type: EventType | null;
  readonly limit: number;
}

/** As much of an event as coverage needs. */
export interface Mark {
  readonly id: string;
  readonly type: string;
  /** `created_at`, epoch ms. */
  readonly at: number;
}

/** One answer of the list. */
export interface Answer extends Question {
  /** How many elements came back, unreadable ones and repetitions included: this is what a cap cuts. */
  readonly size: number;
  /** The events in the order of the answer, repetitions included. */
  readonly marks: readonly Mark[];
  /** The times of elements that cannot be read and may be events that matter; `null` where that is lost, too. */
  readonly unreadable: readonly (number | null)[];
  /** The service's clock when it answered, epoch ms; `null` when it did not say. */
  readonly servedAt: number | null;
}

/**
 * The cap that every server honours: `service.md` gives a limit of 50 as the default, so `C` is at least that.
 *
 * Design section 6 lets the largest answer ever seen stand for the cap. Caps shrink, so only answers of the
 * same poll count here; across polls there is just this number.
 */
export const SURE_CAP = 50;

/**
 * Whether the answer holds everything there was: smaller than the limit and than a size that the server is
 * known to give, so neither can have cut it. `cap` must be seen in other answers: none proves itself.
 */
export function isComplete({ size, limit }: Answer, { cap }: { readonly cap: number }): boolean {
  return size < limit && size < cap;
}

/** How likely a chance may be that passes for evidence. */
const CHANCE = 1e-9;

/**
 * Whether the answer is seen to be newest first: never older before newer, and with too many different times
 * in it for a shuffled list to look so by accident. Fifty equal times show no order at all, nor does one
 * event over and over.
 */
export function isNewestFirst({ marks }: Answer): boolean {
  let chance = 1;
  let run = 0;
  let last = Number.POSITIVE_INFINITY;
  const ids = new Set<string>();
  for (const { id, at } of marks) {
    if (at > last) return false;
    if (ids.has(id)) continue;
    ids.add(id);
    run = at === last ? run + 1 : 1;
    // Of all orders of these times, ties being free, only one descends: multiplied up, step by step.
    chance *= run / ids.size;
    last = at;
  }
  return chance < CHANCE;
}

/** The oldest time in the answer; infinite when it is empty. */
export function oldestOf({ marks }: Answer): number {
  return marks.reduce((oldest, { at }) => Math.min(oldest, at), Number.POSITIVE_INFINITY);
}

/** So many events must turn up in the probe; a server that cuts at random passes once in a million. */
const WITNESSES = 20;

/** The question whose answer tells a list that is cut newest first from one that is only sorted so. */
export function toProbe({ type, size }: Answer): Question {
  return { type, limit: Math.max(1, Math.floor(size / 2)) };
}

/**
 * Whether a smaller answer, asked for after a larger one, holds just the newest of it.
 *
 * A server may take any fifty events and then sort them: newest first to look at, and yet the same old
 * window for ever. If it cuts where it sorts, half the limit gives the newer half.
 */
export function confirmsOrder(
  probe: Answer,
  {
    answer,
    limit,
    settledAt,
  }: { readonly answer: Answer; readonly limit: number; readonly settledAt: number },
): boolean {
  // A server that does not heed the limit gives the same list again, which shows nothing.
  if (probe.size === 0 || probe.size > limit) return false;
  const from = oldestOf(probe);
  const newer = answer.marks.filter(({ at }) => at > from);
  return (
    new Set(newer.map(({ id }) => id)).size >= WITNESSES &&
    !lacks(probe, { marks: newer }) &&
    !contradicts(probe, { answer, settledAt })
  );
}

/**
 * Whether another answer of the same poll holds an event that this one should have held: of its type, newer
 * than its oldest (or of any age, for one that is `complete`), and created long enough ago to be listed.
 */
export function contradicts(
  other: Answer,
  {
    answer,
    settledAt,
    complete = false,
  }: { readonly answer: Answer; readonly settledAt: number; readonly complete?: boolean },
): boolean {
  const from = complete ? Number.NEGATIVE_INFINITY : oldestOf(answer);
  const due = other.marks.filter(
    ({ type, at }) => (answer.type === null || type === answer.type) && at > from && at <= settledAt,
  );
  return lacks(answer, { marks: due });
}

/** Whether one of the marks is missing from the answer. */
function lacks(answer: Answer, { marks }: { readonly marks: readonly Mark[] }): boolean {
  const ids = new Set(answer.marks.map(({ id }) => id));
  return marks.some(({ id }) => !ids.has(id));
}
