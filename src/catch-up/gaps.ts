/** Where events can be missing: how a survey changes the poller's state, and how people acknowledge gaps. */

import type { Awaitable } from '../core/awaitable.js';
import { countOf } from '../core/count.js';
import { ConfigError, orUnavailable } from '../core/errors.js';
import { EVENT_TYPES, type EventType } from '../core/events.js';
import { readOptions, required, rule } from '../core/options.js';
import { type Inbox, POLL_NOTE } from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import type { SurveyResult } from './coverage.js';
import type { GapReason, PollState, StoredGap, Unconfirmed } from './state.js';
import { readPollState, writePollState } from './state.js';

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
  const { isAhead, until, settledAt, seen, proofs, ifComplete } = survey;
  const { since } = last;
  if (!survey.answered) {
    const nothing = { proven: false, unconfirmed: false, opened: [], closed: [] };
    // The service can refuse a limit that it accepted before, so the next poll begins with the lowest.
    return { ...nothing, state: { ...last, limit: 0 }, reason: 'no-answer' };
  }
  const isClockWrong = isAhead || wasAhead;
  const asked = isClockWrong ? null : (last.unconfirmed ?? null);
  // After a larger answer, the unconfirmed one was complete.
  const confirmed = asked !== null && asked.size !== null && seen.all > asked.size ? asked : null;
  const waiting = confirmed ? null : asked;
  // A wrong clock can have skipped any event.
  const ever = Math.min(0, settledAt);
  const passed = Math.max(survey.watermark, last.watermark ?? survey.watermark);
  const known = Math.max(passed, confirmed?.until ?? passed);
  const start = wasAhead ? ever : isAhead ? (since ?? ever) : known;
  // An event that was created at the start date itself counts.
  const begin = start === since ? start - 1 : start;
  const watermark = Math.max(start, since ?? start, settledAt);

  // An answer proves nothing before the start date, because older events are skipped.
  const firstAt = since === null ? Number.NEGATIVE_INFINITY : since - 1;
  const provenFrom: Ends = {};
  const ends: Ends = {};
  const late: Ends = {};
  let reason: GapReason = 'no-order';
  for (const type of EVENT_TYPES) {
    const from = Math.max(proofs[type].from, firstAt);
    provenFrom[type] = from;
    // Until the watermark leaves the start date there is nothing to prove.
    if (watermark > start && from > begin) {
      ends[type] = Math.min(from, watermark);
      // Any other reason says more.
      if (reason === 'no-order') reason = proofs[type].reason;
    }
    // Other events can be listed as late.
    if (lateFrom <= start && from >= lateFrom) late[type] = Math.min(from, start);
  }
  const isProven = isEmpty(ends);
  const isUnconfirmed = !isProven && !isClockWrong && ifComplete !== null && ifComplete.from <= begin;
  const unconfirmed = isUnconfirmed
    ? {
        since: waiting !== null && isWaiting(last) ? waiting.since : until,
        from: Math.max(ifComplete.from, since === null ? begin : firstAt),
        until: watermark,
        size: ifComplete.size,
      }
    : null;
  if (isUnconfirmed) reason = 'unconfirmed';
  if (isClockWrong) reason = 'clock';

  // A larger answer closes unconfirmed gaps only, so their spans stay apart from others.
  const isContinued = (gap: StoredGap) => (gap.reason === 'unconfirmed') === (reason === 'unconfirmed');
  const { kept, closed, rest } = carryOver(last.gaps, {
    ...{ provenFrom, ends, start, settledAt, confirmed, isContinued },
  });
  const isExtended = Object.keys(rest).length < Object.keys(ends).length;
  const waits = unconfirmed !== null && !isExtended && until - unconfirmed.since < unconfirmedMs;

  const opened: StoredGap[] = [];
  const facts = { openedAt: until, acknowledged: null };
  if (!waits && !isEmpty(rest)) opened.push({ from: begin, until: rest, reason, ...facts });
  if (!isEmpty(late)) opened.push({ from: lateFrom - 1, until: late, reason: 'late', ...facts });
  const gaps = limitGaps([...kept, ...opened]);
  const moved = waits ? start : watermark;
  const open = gaps.filter(({ acknowledged }) => acknowledged === null);
  const isConfirmable = open.some((gap) => gap.reason === 'unconfirmed');
  return {
    state: {
      ...last,
      watermark: moved,
      gaps,
      limit: survey.limit,
      // A poll that proves a waiting span or a gap must notice events that were removed in the meantime.
      oldest: moved > start && open.length === 0 ? survey.oldest : (last.oldest ?? survey.oldest),
      seen,
      unconfirmed: unconfirmed ?? (isConfirmable ? waiting : null),
    },
    proven: isProven && isEmpty(late),
    unconfirmed: waits,
    reason: isProven ? 'late' : reason,
    opened,
    closed,
  };
}

interface Carried {
  /** From where each type is proven. */
  readonly provenFrom: Ends;
  /** The ends of the unproven span that begins at `start`. */
  readonly ends: Ends;
  readonly start: number;
  readonly settledAt: number;
  /** The span that a larger answer has confirmed. */
  readonly confirmed: Unconfirmed | null;
  /** Whether the unproven span continues a gap that ends where it begins. */
  readonly isContinued: (gap: StoredGap) => boolean;
}

/** Shortens open gaps by what is proven now, and lengthens those that the unproven span continues; `rest` is what is left of it. */
function carryOver(
  gaps: readonly StoredGap[],
  { provenFrom, ends, start, settledAt, confirmed, isContinued }: Carried,
) {
  const kept: StoredGap[] = [];
  const closed: StoredGap[] = [];
  const rest = { ...ends };
  for (const gap of gaps) {
    if (gap.acknowledged !== null) {
      kept.push(gap);
      continue;
    }
    const isConfirmed = confirmed !== null && gap.reason === 'unconfirmed' && gap.from >= confirmed.from;
    const left: Ends = {};
    for (const [type, end] of Object.entries(gap.until)) {
      if (isConfirmed && end <= confirmed.until) continue;
      // A clock that was set back: the proof ends before the gap does.
      const from = end > settledAt ? end : Math.min(end, provenFrom[type] ?? end);
      if (from > gap.from) left[type] = from;
      if (left[type] === start && ends[type] !== undefined && isContinued(gap)) {
        left[type] = ends[type];
        delete rest[type];
      }
    }
    if (isEmpty(left)) closed.push(gap);
    else kept.push({ ...gap, until: left });
  }
  return { kept, closed, rest };
}

/** Whether the watermark waits for a larger answer, and has not passed the span. */
export function isWaiting({ unconfirmed, watermark }: PollState): boolean {
  return unconfirmed != null && unconfirmed.until > (watermark ?? Number.NEGATIVE_INFINITY);
}

/** Where a span ends, for each type. */
type Ends = Record<string, number>;

function isEmpty(until: StoredGap['until']): boolean {
  return Object.keys(until).length === 0;
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
  return limitGaps(gaps.filter((gap) => gap !== second).map((gap) => (gap === first ? joined : gap)));
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
    until: toIso(Math.max(...Object.values(until))),
    reason,
    openedAt: toIso(openedAt),
    acknowledged: acknowledged && { ...acknowledged, at: toIso(acknowledged.at) },
  };
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
  const counts = [
    open > 0 && countOf(open, 'open gap'),
    gaps.length > open && countOf(gaps.length - open, 'acknowledged gap'),
  ].filter(Boolean);
  return counts.length > 0 ? `, except in ${counts.join(' and ')}` : '';
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
export async function listGaps(inbox: Pick<Inbox, 'readNote'>): Promise<readonly Gap[]> {
  const { gaps } = await orUnavailable('ERR_INBOX_FAILED', () => readPollState(inbox));
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
  inbox: Pick<Inbox, 'readNote' | 'writeNote' | 'leaseNote'>,
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
  const ask = async <Answer>(call: () => Awaitable<Answer>) => orUnavailable('ERR_INBOX_FAILED', call);
  const lease = (leaseMs: number) => ask(() => inbox.leaseNote(POLL_NOTE, { holder, leaseMs }));
  if (!(await lease(ACKNOWLEDGE_LEASE_MS))) return null;
  const state = await ask(() => readPollState(inbox));
  const found = state.gaps.find((stored) => {
    const { from, openedAt } = toGap(stored);
    return stored.acknowledged === null && from === gap.from && openedAt === gap.openedAt;
  });
  const end = Date.parse(gap.until);
  if (found === undefined || !(end > found.from)) {
    await lease(0);
    throw new ConfigError(
      'acknowledgeGap: there is no such open gap: it is closed or acknowledged. listGaps shows what there is.',
    );
  }
  const accepted: Ends = {};
  const rest: Ends = {};
  for (const [type, until] of Object.entries(found.until)) {
    accepted[type] = Math.min(until, end);
    if (until > end) rest[type] = until;
  }
  const record = { ...found, until: accepted, acknowledged: { by, reason, at: now() } };
  const parts = isEmpty(rest) ? [record] : [record, { ...found, from: end, until: rest }];
  const gaps = state.gaps.flatMap((stored) => (stored === found ? parts : [stored]));
  const isSaved = await ask(() => writePollState(inbox, { ...state, gaps }, { holder }));
  // If this fails, the lease lapses by itself.
  await lease(0).catch(() => undefined);
  return isSaved ? toGap(record) : null;
}
