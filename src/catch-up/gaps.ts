/** Where events can be missing: how a survey changes the poller's state, and how people acknowledge gaps. */

import { ConfigError, orUnavailable } from '../core/errors.js';
import { EVENT_TYPES, type EventType } from '../core/events.js';
import { readOptions, required, rule } from '../core/options.js';
import type { GapReason, Inbox, InboxOperations, PollState, StoredGap, Unconfirmed } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import type { SurveyResult } from './coverage.js';

/** A span of `created_at` for which it is not proven that every event is in the inbox. Times are ISO. */
export interface Gap {
  /** `closed`: a later poll proved it. `acknowledged`: a person accepted it without a proof. */
  readonly state: 'open' | 'closed' | 'acknowledged';
  /** The types of which events can be missing. */
  readonly types: readonly EventType[];
  /** Events created after this time can be missing. */
  readonly from: string;
  /** Events created after this time are not missing. */
  readonly until: string;
  readonly reason: GapReason;
  /** When the poll that opened it started. */
  readonly openedAt: string;
  /** Who accepted it without a proof, why and when; `null` unless it is acknowledged. */
  readonly acknowledged: { readonly by: string; readonly reason: string; readonly at: string } | null;
}

/** The changes by a survey. */
export interface Advance {
  /** The next state of the poller. */
  readonly state: PollState;
  /** Whether everything from the old watermark to the new one is proven, and no span is unconfirmed. */
  readonly proven: boolean;
  /** Whether the watermark waits for a larger answer. */
  readonly unconfirmed: boolean;
  /** Why it is not proven; of no meaning if it is. */
  readonly reason: GapReason;
  readonly opened: readonly StoredGap[];
  readonly closed: readonly StoredGap[];
}

/**
 * Moves the watermark and keeps unproven spans as gaps. A gap that a proof covers is closed. A gap that ends where this poll
 * begins becomes longer if the poll proves nothing. For a span that is only unconfirmed, the watermark waits first.
 *
 * @param last - the state with the start date of this poll.
 * @param wasAhead - whether the start date of the last poll was set by a wrong clock.
 * @param unconfirmedMs - how long the watermark waits.
 * @param lateFrom - from when on events were listed late; `Infinity` without any.
 */
export function advance(
  last: PollState,
  survey: SurveyResult,
  {
    wasAhead,
    unconfirmedMs,
    lateFrom,
  }: { readonly wasAhead: boolean; readonly unconfirmedMs: number; readonly lateFrom: number },
): Advance {
  const { answered, isAhead, until, settledAt, seen } = survey;
  const unread = { proven: false, unconfirmed: false, opened: [], closed: [] };
  // The service can refuse a limit that it accepted before, so the next poll begins with the lowest.
  if (!answered) return { ...unread, state: { ...last, limit: 0 }, reason: 'no-answer' };
  const isClockWrong = isAhead || wasAhead;
  const state = isClockWrong ? { ...last, unconfirmed: null } : confirm(last, seen.all);
  // A wrong clock can have skipped any event.
  const ever = Math.min(0, settledAt);
  const known = Math.max(survey.watermark, state.watermark ?? survey.watermark);
  const start = wasAhead ? ever : isAhead ? (state.since ?? ever) : known;
  // An event that was created at the start date itself counts.
  const begin = start === state.since ? start - 1 : start;
  const watermark = Math.max(start, state.since ?? start, settledAt);

  const proofs = limitToStart(survey.proofs, state);
  const shrunk = state.gaps.map((gap) => (gap.acknowledged ? gap : shrink(gap, { proofs, settledAt })));
  const kept = shrunk.filter((gap) => !isEmpty(gap));

  // Until the watermark leaves the start date there is nothing to prove.
  const missing = watermark > start ? EVENT_TYPES.filter((type) => proofs[type].from > begin) : [];
  const isProven = missing.length === 0;
  const unconfirmed = isProven || isClockWrong ? null : toUnconfirmed(state, { survey, begin, watermark });
  // The reason that says most.
  const telling = missing.find((type) => proofs[type].reason !== 'no-order') ?? missing[0];
  const proofReason = telling === undefined ? 'no-order' : proofs[telling].reason;
  const reason = isClockWrong ? 'clock' : unconfirmed ? 'unconfirmed' : proofReason;
  const ends = new Map(missing.map((type) => [type, Math.min(proofs[type].from, watermark)]));
  const grown = grow(kept, { start, begin, ends, reason, openedAt: until });
  const waits = unconfirmed !== null && !grown.isExtended && until - unconfirmed.since < unconfirmedMs;

  const late = toLateGaps({ proofs, start, lateFrom, openedAt: until });
  const gaps = limitGaps([...(waits ? kept : grown.gaps), ...late]);
  const moved = waits ? start : watermark;
  const open = gaps.filter(({ acknowledged }) => acknowledged === null);
  const isConfirmable = open.some((gap) => gap.reason === 'unconfirmed');
  return {
    state: {
      ...state,
      watermark: moved,
      gaps,
      limit: survey.limit,
      // A poll that proves a waiting span or a gap must notice events that were removed in the meantime.
      oldest: moved > start && open.length === 0 ? survey.oldest : (state.oldest ?? survey.oldest),
      seen,
      unconfirmed: unconfirmed ?? (isConfirmable ? state.unconfirmed : null),
    },
    proven: isProven && late.length === 0,
    unconfirmed: waits,
    reason: isProven ? 'late' : reason,
    opened: [...(waits ? [] : grown.opened), ...late],
    closed: last.gaps.filter((_, index) => isEmpty(shrunk[index])),
  };
}

/** The state after an answer that was larger than the unconfirmed one, which was therefore complete. */
function confirm(state: PollState, largest: number): PollState {
  const { unconfirmed, watermark } = state;
  if (!unconfirmed || unconfirmed.size === null || largest <= unconfirmed.size) return state;
  const { from, until } = unconfirmed;
  const gaps = state.gaps.map((gap) => {
    if (gap.reason !== 'unconfirmed' || gap.acknowledged !== null || gap.from < from) return gap;
    return { ...gap, until: Object.fromEntries(Object.entries(gap.until).filter(([, end]) => end > until)) };
  });
  return { ...state, gaps, watermark: Math.max(watermark ?? until, until), unconfirmed: null };
}

/** Whether the watermark waits for a larger answer, and has not passed the span. */
export function isWaiting({ unconfirmed, watermark }: PollState): boolean {
  return unconfirmed != null && unconfirmed.until > (watermark ?? Number.NEGATIVE_INFINITY);
}

/** The span that is proven if the list was complete; `null` if even that would not prove all of it. */
function toUnconfirmed(
  state: PollState,
  {
    survey: { ifComplete, until },
    begin,
    watermark,
  }: { readonly survey: SurveyResult; readonly begin: number; readonly watermark: number },
): Unconfirmed | null {
  if (ifComplete === null || ifComplete.from > begin) return null;
  const from = Math.max(ifComplete.from, state.since === null ? begin : state.since - 1);
  const since = isWaiting(state) ? (state.unconfirmed?.since ?? until) : until;
  return { since, from, until: watermark, size: ifComplete.size };
}

type Proofs = SurveyResult['proofs'];

/** An answer proves nothing before the start date, because older events are skipped. */
function limitToStart(proofs: Proofs, { since }: PollState): Proofs {
  const begin = since === null ? Number.NEGATIVE_INFINITY : since - 1;
  const limited = { ...proofs };
  for (const type of EVENT_TYPES) {
    if (proofs[type].from < begin) limited[type] = { ...proofs[type], from: begin };
  }
  return limited;
}

/** The part of a gap that this poll does not prove. */
function shrink(
  gap: StoredGap,
  { proofs, settledAt }: Pick<SurveyResult, 'proofs' | 'settledAt'>,
): StoredGap {
  const until = Object.entries(gap.until)
    .map(([type, end]) => {
      const from = proofs[type as EventType]?.from ?? end;
      // A clock that was set back: the proof ends before the gap does.
      return [type, end > settledAt ? end : Math.min(end, from)] as const;
    })
    .filter(([, end]) => end > gap.from);
  return { ...gap, until: Object.fromEntries(until) };
}

function isEmpty(gap: StoredGap | undefined): boolean {
  return gap !== undefined && Object.keys(gap.until).length === 0;
}

function endsAt({ until, acknowledged }: StoredGap, type: EventType, time: number): boolean {
  return acknowledged === null && until[type] === time;
}

/** The span that a poll leaves unproven. Times are epoch ms. */
interface Unproven {
  readonly start: number;
  /** Where a new gap begins. */
  readonly begin: number;
  /** Where it ends, for each type. */
  readonly ends: ReadonlyMap<EventType, number>;
  readonly reason: GapReason;
  readonly openedAt: number;
}

/** Gaps that end where the poll begins become longer. The rest is a new gap. */
function grow(gaps: readonly StoredGap[], { start, begin, ends, reason, openedAt }: Unproven) {
  const rest = new Map(ends);
  const extended = gaps.map((gap) => {
    // A larger answer closes unconfirmed gaps only.
    if ((gap.reason === 'unconfirmed') !== (reason === 'unconfirmed')) return gap;
    const longer = [...ends].filter(([type]) => endsAt(gap, type, start));
    for (const [type] of longer) rest.delete(type);
    return { ...gap, until: { ...gap.until, ...Object.fromEntries(longer) } };
  });
  const until = Object.fromEntries(rest);
  const opened = rest.size > 0 ? [{ from: begin, until, reason, openedAt, acknowledged: null }] : [];
  return { gaps: [...extended, ...opened], opened, isExtended: rest.size < ends.size };
}

/** The part before the watermark, from the late events on, that no proof covers: others can be listed as late. */
function toLateGaps({
  proofs,
  start,
  lateFrom,
  openedAt,
}: {
  readonly proofs: Proofs;
  readonly start: number;
  readonly lateFrom: number;
  readonly openedAt: number;
}): readonly StoredGap[] {
  const types = EVENT_TYPES.filter((type) => lateFrom <= start && proofs[type].from >= lateFrom);
  if (types.length === 0) return [];
  const until = Object.fromEntries(types.map((type) => [type, Math.min(proofs[type].from, start)]));
  return [{ from: lateFrom - 1, until, reason: 'late', openedAt, acknowledged: null }];
}

/** How many open gaps are kept apart. A poller that is too slow for its list opens a gap at each poll. */
const MAX_GAPS = 500;

/** Joins the two oldest open gaps into one until there are not too many. The joined gap covers the time between them as well. */
function limitGaps(gaps: readonly StoredGap[]): readonly StoredGap[] {
  const [first, second, ...open] = gaps.filter(({ acknowledged }) => acknowledged === null);
  if (first === undefined || second === undefined || open.length + 2 <= MAX_GAPS) return gaps;
  const until = { ...first.until };
  for (const [type, end] of Object.entries(second.until)) until[type] = Math.max(end, until[type] ?? end);
  // A larger answer closes unconfirmed gaps only.
  const { reason } = first.reason === 'unconfirmed' ? second : first;
  const joined = { ...first, reason, from: Math.min(first.from, second.from), until };
  return limitGaps(gaps.flatMap((gap) => (gap === first ? [joined] : gap === second ? [] : [gap])));
}

/** Whether an event of this type and time is in a gap. */
export function isInGap(
  { gaps }: PollState,
  { type, at }: { readonly type: string; readonly at: number },
): boolean {
  return gaps.some(({ from, until }) => at > from && at <= (until[type] ?? Number.NEGATIVE_INFINITY));
}

/** A stored gap for people. */
export function toGap(
  { from, until, reason, openedAt, acknowledged }: StoredGap,
  state: Gap['state'] = acknowledged === null ? 'open' : 'acknowledged',
): Gap {
  return {
    state,
    types: EVENT_TYPES.filter((type) => until[type] !== undefined),
    from: toIso(from),
    until: toIso(endOf(until)),
    reason,
    openedAt: toIso(openedAt),
    acknowledged: acknowledged && { ...acknowledged, at: toIso(acknowledged.at) },
  };
}

function endOf(until: StoredGap['until']): number {
  return Math.max(...Object.values(until));
}

/** The last time of a `Date`, epoch ms (ECMA-262, 21.4.1.1). */
const MAX_TIME = 8.64e15;

/** ISO. A time that no calendar has becomes the nearest one that it has. */
export function toIso(time: number): string {
  return new Date(Math.max(-MAX_TIME, Math.min(MAX_TIME, time))).toISOString();
}

/** Why events of a gap can be missing, and what to do. */
const REASONS: Readonly<Record<GapReason, string>> = {
  unconfirmed:
    'the list can be complete or cut, because no larger answer was seen. The next one closes the gap. Set listMax if you know how many events the service returns',
  'not-reached':
    'the list shows its newest events, and they do not reach back far enough. Compare the books of the span with reconcile. If this happens without an outage, lower lagMs or raise maxLimit',
  'oldest-first':
    'the list shows its oldest events and lacks others. Ask the service how to read the newest ones; until then rely on push',
  'no-order':
    'the list lacks events, and its order is not confirmed. Ask the service for the newest events first',
  'filtered-late': 'the service filters by type only after it has cut the list. Ask the service',
  contradiction: 'two answers of the list contradict each other. Ask the service if this continues',
  removed:
    'events of the span can have left the list before a poll saw them. Compare the books of the span with reconcile',
  late: 'events of the span were listed later than lagMs, and the list was not read further back. Later polls read it. If it happens again, raise lagMs',
  malformed: 'an element of the list is not an event. Report it to the service',
  'no-answer': 'the list was not read, or what it showed was not recorded',
  clock:
    'the stored watermark or start date was in the future, because a clock was wrong. Check the clocks, and compare the books of that time with reconcile',
};

/** Why something is not proven, and what to do, as a sentence. */
export function describeReason(reason: GapReason): string {
  const text = REASONS[reason];
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

/** The end of a sentence about what is proven: `, except in 1 open gap`, or nothing. */
export function exceptIn(gaps: readonly StoredGap[]): string {
  const open = gaps.filter(({ acknowledged }) => acknowledged === null).length;
  const counts = [countOf(open, 'open gap'), countOf(gaps.length - open, 'acknowledged gap')].filter(Boolean);
  return counts.length > 0 ? `, except in ${counts.join(' and ')}` : '';
}

function countOf(count: number, name: string): string {
  return count === 0 ? '' : `${count} ${name}${count === 1 ? '' : 's'}`;
}

/** Which events a gap is about. */
export function describeSpan({ types, from, until }: Gap): string {
  const which = types.length === EVENT_TYPES.length ? 'Events' : `Events of ${types.join(', ')}`;
  return `${which} created after ${from} and up to ${until}`;
}

/** A gap in one or two sentences: which events can be missing, why, and what to do. */
export function describeGap(gap: Gap): string {
  const { state, reason, acknowledged } = gap;
  const span = describeSpan(gap);
  if (state === 'closed') return `${span} are not missing any more: the list has proven this span.`;
  const what = `${span} can be missing: ${REASONS[reason]}.`;
  if (acknowledged === null) return what;
  return `${what} Acknowledged by ${acknowledged.by} at ${acknowledged.at}: ${acknowledged.reason}`;
}

/** Who accepts a gap, and why. Both are kept in the inbox and shown as they are. */
export interface Acknowledgement {
  /** The person or job, at most 200 characters. */
  readonly by: string;
  /** Why nothing is missing, or why that is accepted, at most 1,000 characters. */
  readonly reason: string;
}

const textOf = (length: number) =>
  rule(
    `a string of 1 to ${length} characters`,
    (value) => typeof value === 'string' && value.trim() !== '' && value.length <= length,
  );

/** The open and acknowledged gaps of the poller's state, in the order in which they were opened. */
export async function listGaps(inbox: Pick<InboxOperations, 'pollState'>): Promise<readonly Gap[]> {
  const { gaps } = await orUnavailable('ERR_INBOX_FAILED', () => inbox.pollState());
  return gaps.map((gap) => toGap(gap));
}

/** How long other processes cannot poll if this process dies while it acknowledges a gap, in ms. */
const ACKNOWLEDGE_LEASE_MS = 10_000;

/**
 * Accepts a gap without a proof, such as after a comparison of the books. The gap stays in the inbox as a record of who
 * accepted it, why and when, and no poll reports it again. A part that a poll has added since the report stays open.
 *
 * @param gap - a gap of a report or of {@link listGaps}; `from`, `until` and `openedAt` identify it.
 * @returns the acknowledged gap; `null`, and nothing changed, while another process polls.
 * @throws {StablehooksError} `ERR_INBOX_FAILED`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the gap is not open, or `by` or `reason` is missing.
 */
export async function acknowledgeGap(
  inbox: Pick<Inbox<unknown>, 'acquirePoll' | 'savePoll'>,
  gap: Pick<Gap, 'from' | 'until' | 'openedAt'>,
  acknowledgement: Acknowledgement,
  options: { readonly runtime?: RuntimeOptions | undefined } = {},
): Promise<Gap | null> {
  const { by, reason } = readOptions('acknowledgeGap', acknowledgement, {
    by: required(textOf(200)),
    reason: required(textOf(1_000)),
  });
  const given = readOptions('acknowledgeGap', options, { runtime: RUNTIME });
  const { now, uuid } = toRuntime(given.runtime);
  const holder = uuid();
  const save = (state: PollState) =>
    orUnavailable('ERR_INBOX_FAILED', () => inbox.savePoll(state, { holder, leaseMs: 0 }));
  const state = await orUnavailable('ERR_INBOX_FAILED', () =>
    inbox.acquirePoll({ holder, leaseMs: ACKNOWLEDGE_LEASE_MS }),
  );
  if (state === null) return null;
  const found = state.gaps.find((stored) => {
    const { from, openedAt } = toGap(stored);
    return stored.acknowledged === null && from === gap.from && openedAt === gap.openedAt;
  });
  const end = Date.parse(gap.until);
  if (found === undefined || !(end > found.from)) {
    await save(state);
    throw new ConfigError(
      'acknowledgeGap: there is no such open gap: it is closed or acknowledged. listGaps shows what there is.',
    );
  }
  const ends = Object.entries(found.until);
  const accepted: StoredGap = {
    ...found,
    until: Object.fromEntries(ends.map(([type, until]) => [type, Math.min(until, end)])),
    acknowledged: { by, reason, at: now() },
  };
  const rest: StoredGap = {
    ...found,
    from: end,
    until: Object.fromEntries(ends.filter(([, until]) => until > end)),
  };
  const gaps = state.gaps.flatMap((stored) =>
    stored !== found ? [stored] : isEmpty(rest) ? [accepted] : [accepted, rest],
  );
  return (await save({ ...state, gaps })) ? toGap(accepted) : null;
}
