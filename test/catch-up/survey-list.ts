/** Surveys of a list that a function serves. */
import { EVENT_TYPES } from 'stablehooks';
import type { PollState } from 'stablehooks/catch-up';
import type { EventKey, ListAnswer, ListQuery } from '../../src/catch-up/answer.js';
import type { SurveyResult } from '../../src/catch-up/conclude.js';
import { surveyList } from '../../src/catch-up/coverage.js';
import type { SurveyOptions } from '../../src/catch-up/evidence.js';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
export const NOW = 100 * HOUR_MS;
export const LAG_MS = 300_000;
/** An event created up to here is listed, by the options of {@link survey}. */
export const SETTLED_AT = NOW - LAG_MS;
export const DISORDER_MS = 1_000;

/** When the event with this index of {@link marks} was created. */
export function timeOf(index: number): number {
  return NOW - HOUR_MS - index * MINUTE_MS;
}

/** The option of a list that lacks an event of an earlier answer: it is cut, or events were removed. */
export const LACKING = {
  seen: { all: 50, type: 0, listMaxRefuted: false, known: [{ id: 'gone', type: 'redeem.failed', at: 1 }] },
};

/** A list of events a minute apart, newest first, that ends an hour ago; the types in turn. */
export function marks(count: number, types: readonly string[] = EVENT_TYPES): readonly EventKey[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `e${index}`,
    type: types[index % types.length] ?? '',
    at: timeOf(index),
  }));
}

/** Answers the query with this index; `null` is a failed request. */
export type Serve = (query: ListQuery, request: number) => readonly EventKey[] | null;

export function cut(list: readonly EventKey[], { type, limit }: ListQuery): readonly EventKey[] {
  return list.filter((mark) => type === null || mark.type === type).slice(0, limit);
}

/** Events as an answer has them. */
export function byId<Event extends EventKey>(events: readonly Event[]): ReadonlyMap<string, Event> {
  return new Map(events.map((event) => [event.id, event]));
}

/** What the service says beside the events of an answer. */
type Extras = Pick<ListAnswer, 'servedAt' | 'unreadable'>;

export interface Surveyed extends SurveyResult {
  readonly queries: readonly ListQuery[];
  readonly requests: number;
  /** The types of which less than everything after the watermark is proven. */
  readonly unproven: readonly string[];
}

export function survey(
  serve: Serve,
  {
    extras = () => ({}),
    lastLimit = 0,
    oldest = null,
    seen,
    ...options
  }: Partial<Omit<SurveyOptions, 'state'>> &
    Partial<Pick<PollState, 'oldest' | 'seen'>> & {
      /** The limit that sufficed at the last poll. */
      readonly lastLimit?: number | undefined;
      readonly extras?: ((request: number) => Partial<Extras>) | undefined;
    } = {},
): Surveyed {
  const given = {
    watermark: 0,
    startedAt: NOW,
    lagMs: LAG_MS,
    disorderMs: DISORDER_MS,
    limit: 50,
    maxLimit: 1_000,
    state: { limit: lastLimit, oldest, seen },
    ...options,
  };
  const steps = surveyList(given);
  const queries: ListQuery[] = [];
  let step = steps.next();
  while (!step.done) {
    const query = step.value;
    const request = queries.push(query) - 1;
    const events = serve(query, request);
    const said: Extras = { unreadable: [], servedAt: null, ...extras(request) };
    step = steps.next(events && { ...query, size: events.length, events: byId(events), ...said });
  }
  const { proofs } = step.value;
  const unproven = EVENT_TYPES.filter((type) => proofs[type].from > given.watermark);
  return { ...step.value, queries, requests: queries.length, unproven };
}
