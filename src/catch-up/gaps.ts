/** Where events can be missing: how what the list proves changes the poller's state, and what people do about gaps. */

import { ConfigError, orUnavailable } from '../core/errors.js';
import { EVENT_TYPES, type EventType } from '../core/events.js';
import { readOptions, required, rule, withMethods } from '../core/options.js';
import type { GapReason, Inbox, InboxOperations, PollState, StoredGap } from '../core/ports.js';
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
  /** Whether everything from the old watermark to the new one is proven. */
  readonly proven: boolean;
  /** Why not; of no meaning if it is proven. */
  readonly reason: GapReason;
  readonly opened: readonly StoredGap[];
  readonly closed: readonly StoredGap[];
}

/**
 * Moves the watermark on and keeps what is not proven as gaps. A gap that a proof covers is closed; one that ends where
 * this poll begins and is still not proven becomes longer.
 *
 * @param state - the state with the start date of this poll.
 * @param wasAhead - whether the start date of the last poll was set by a wrong clock.
 */
export function advance(
  state: PollState,
  survey: SurveyResult,
  { wasAhead }: { readonly wasAhead: boolean },
): Advance {
  const { answered, isAhead, until, settledAt } = survey;
  if (!answered) return { state, proven: false, reason: 'no-answer', opened: [], closed: [] };
  // It isn't known what a wrong clock skipped.
  const ever = Math.min(0, settledAt);
  const start = wasAhead ? ever : isAhead ? (state.since ?? ever) : survey.watermark;
  // An event that was created at the start date itself counts.
  const begin = start === state.since ? start - 1 : start;
  const watermark = Math.max(start, state.since ?? start, settledAt);

  const proofs = limitToStart(limitProofs(survey.proofs, state.gaps), state);
  const shrunk = state.gaps.map((gap) => (gap.acknowledged ? gap : shrink(gap, { proofs, settledAt })));
  const closed = state.gaps.filter((_, index) => isEmpty(shrunk[index]));
  const kept = shrunk.filter((gap) => !isEmpty(gap));

  // Until the watermark leaves the start date there is nothing to prove.
  const missing = watermark > start ? EVENT_TYPES.filter((type) => proofs[type].from > begin) : [];
  const ends = new Map(missing.map((type) => [type, Math.min(proofs[type].from, watermark)]));
  const extended = kept.map((gap) => extend(gap, { start, ends }));
  const isExtended = (type: EventType) => kept.some((gap) => endsAt(gap, type, start));
  const added = missing.filter((type) => !isExtended(type));
  const reason = isAhead || wasAhead ? 'clock' : reasonOf(missing, proofs);
  const gap: StoredGap = {
    from: begin,
    until: Object.fromEntries(added.map((type) => [type, ends.get(type) ?? watermark])),
    reason,
    openedAt: until,
    acknowledged: null,
  };
  const opened = added.length === 0 ? [] : [gap];
  const gaps = limitGaps([...extended, ...opened]).map((gap) => markRemoved(gap, survey));
  // While the watermark stands still, there is no gap to mark: what has been removed since must be noticed once it moves.
  const oldest = watermark > start ? survey.oldest : (state.oldest ?? survey.oldest);
  return {
    state: { ...state, watermark, gaps, limit: survey.limit, oldest },
    proven: missing.length === 0,
    reason,
    opened,
    closed,
  };
}

/** Of the reasons why types are not proven, the one that says most. */
function reasonOf(types: readonly EventType[], proofs: Proofs): GapReason {
  const reasons = types.map((type) => proofs[type].reason);
  return reasons.find((each) => each !== 'no-order') ?? 'no-order';
}

function markRemoved(gap: StoredGap, { removedUntil }: SurveyResult): StoredGap {
  if (removedUntil === null) return gap;
  return { ...gap, removedUntil: Math.max(removedUntil, gap.removedUntil ?? removedUntil) };
}

type Proofs = SurveyResult['proofs'];

/** A complete list proves nothing of the time from which events have been removed since a gap was opened. */
export function limitProofs(proofs: Proofs, gaps: readonly StoredGap[]): Proofs {
  const removedUntil = Math.max(...gaps.map((gap) => gap.removedUntil ?? Number.NEGATIVE_INFINITY));
  const limited = EVENT_TYPES.map((type) => {
    const proof = proofs[type];
    const isAll = proof.from === Number.NEGATIVE_INFINITY;
    return [type, isAll ? { from: removedUntil, reason: 'removed' } : proof] as const;
  });
  return Object.fromEntries(limited) as Proofs;
}

/** No answer proves anything of before the start date: what it shows from there is skipped. */
function limitToStart(proofs: Proofs, { since }: PollState): Proofs {
  const begin = since === null ? Number.NEGATIVE_INFINITY : since - 1;
  const limited = EVENT_TYPES.map((type) => {
    const { from, reason } = proofs[type];
    return [type, { from: Math.max(from, begin), reason }] as const;
  });
  return Object.fromEntries(limited) as Proofs;
}

/** The rest of a gap that the answers of this poll prove in part or whole. */
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

/** A gap that ends where this poll begins, with the span that this poll does not prove either. */
function extend(
  gap: StoredGap,
  { start, ends }: { readonly start: number; readonly ends: ReadonlyMap<EventType, number> },
): StoredGap {
  const longer = [...ends].filter(([type]) => endsAt(gap, type, start));
  return { ...gap, until: { ...gap.until, ...Object.fromEntries(longer) } };
}

/** How many open gaps are kept apart. A poller that is too slow for its list opens one at each poll. */
const MAX_GAPS = 500;

/** Joins the two oldest open gaps into one until there are not too many. The joined gap covers the time between them as well. */
function limitGaps(gaps: readonly StoredGap[]): readonly StoredGap[] {
  const [first, second, ...open] = gaps.filter(({ acknowledged }) => acknowledged === null);
  if (first === undefined || second === undefined || open.length + 2 <= MAX_GAPS) return gaps;
  const until = { ...first.until };
  for (const [type, end] of Object.entries(second.until)) until[type] = Math.max(end, until[type] ?? end);
  const joined = { ...first, from: Math.min(first.from, second.from), until };
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

/** ISO, also of a time that no calendar has. */
export function toIso(time: number): string {
  return new Date(Math.max(-MAX_TIME, Math.min(MAX_TIME, time))).toISOString();
}

/** The last time of a `Date`, epoch ms (ECMA-262, 21.4.1.1). */
const MAX_TIME = 8.64e15;

/** Why events of a gap can be missing, and what to do. */
const REASONS: Readonly<Record<GapReason, string>> = {
  'not-reached':
    'the list shows only its newest events, and they do not reach back far enough. If this happens without an outage, poll more often or raise maxLimit',
  'window-too-short':
    'the list shows only its newest events, and more of that time can still be listed. Lower lagMs, poll more often or raise maxLimit',
  'oldest-first':
    'the list is cut and shows its oldest events, so it never shows new ones. Ask the service for a larger limit; until then only push brings them',
  'no-order':
    'the list is cut and shows no order. Raise maxLimit, or disorderMs if its events are only slightly out of order',
  'filtered-late': 'the service filters by type only after it has cut the list. Ask the service',
  contradiction: 'two answers of the list contradict each other. Ask the service if this continues',
  removed: 'the service has removed events from the list. Poll more often than it removes them',
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

/** A gap in one or two sentences: what can be missing, why, and what to do. */
export function describeGap({ state, types, from, until, reason, acknowledged }: Gap): string {
  const which = types.length === EVENT_TYPES.length ? 'Events' : `Events of ${types.join(', ')}`;
  const span = `created after ${from} and up to ${until}`;
  if (state === 'closed') return `${which} ${span} are not missing any more: the list has proven this span.`;
  const what = `${which} ${span} can be missing: ${REASONS[reason]}.`;
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

/** The gaps that the poller's state has: open ones and acknowledged ones, in the order in which they were opened. */
export async function listGaps(inbox: Pick<InboxOperations, 'pollState'>): Promise<readonly Gap[]> {
  const { gaps } = await orUnavailable('ERR_INBOX_FAILED', () => inbox.pollState());
  return gaps.map((gap) => toGap(gap));
}

const INBOX = withMethods('an inbox, such as sqliteInbox() or memoryInbox()', ['acquirePoll', 'savePoll']);
const GAP = rule('a gap, such as listGaps or a report gives', (gap) => {
  const { from, until, openedAt } = (gap ?? {}) as Partial<Gap>;
  return [from, until, openedAt].every((time) => !Number.isNaN(Date.parse(String(time))));
});

/** How long an acknowledgement keeps others from polling if this process dies, in ms. */
const ACKNOWLEDGE_LEASE_MS = 10_000;

/**
 * Accepts a gap without a proof, such as after a comparison of the books. The gap stays in the inbox as a record of who
 * accepted it, why and when, and no poll reports it again. A part that a poll has added since the report stays open.
 *
 * @param gap - a gap of a report or of {@link listGaps}; `from`, `until` and `openedAt` identify it.
 * @returns the acknowledged gap; `null`, and nothing changed, while another process polls.
 * @throws {StablehooksError} `ERR_INBOX_FAILED`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when there is no such open gap, or `by` or `reason` is missing.
 */
export async function acknowledgeGap(
  inbox: Pick<Inbox<unknown>, 'acquirePoll' | 'savePoll'>,
  gap: Pick<Gap, 'from' | 'until' | 'openedAt'>,
  acknowledgement: Acknowledgement,
  options: { readonly runtime?: RuntimeOptions | undefined } = {},
): Promise<Gap | null> {
  readOptions('acknowledgeGap', { inbox, gap }, { inbox: required(INBOX), gap: required(GAP) });
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
  const accepted: StoredGap = {
    ...found,
    until: Object.fromEntries(
      Object.entries(found.until).map(([type, until]) => [type, Math.min(until, end)]),
    ),
    acknowledged: { by, reason, at: now() },
  };
  const rest: StoredGap = {
    ...found,
    from: end,
    until: Object.fromEntries(Object.entries(found.until).filter(([, until]) => until > end)),
  };
  const gaps = state.gaps.flatMap((stored) =>
    stored !== found ? [stored] : isEmpty(rest) ? [accepted] : [accepted, rest],
  );
  return (await save({ ...state, gaps })) ? toGap(accepted) : null;
}
