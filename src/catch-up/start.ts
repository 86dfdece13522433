import { createdAtMs, isEventType, isTestId } from '../core/events.js';
import type { Inbox, InboxOperations, InboxRecord } from '../core/ports.js';
import type { Evidence } from './evidence.js';
import type { OpenSettings, PollerSettings } from './options.js';
import type { KnownEvent, OldestListed, PollState } from './state.js';

const PUSHED_RECORDS = 100;

/** Pushed events this far before the start date are also compared with the list: no service removes events so soon. */
const LOOK_BACK_MS = 3_600_000;

/** Returns no events if the inbox has no `list`. If `isFirst` is true, looks back further than `begin`. */
export async function pushedSince(
  open: OpenSettings,
  begin: number,
  isFirst: boolean,
): Promise<readonly KnownEvent[]> {
  const from = isFirst ? begin - LOOK_BACK_MS : begin;
  const receivedSince = Math.max(0, Math.floor(from - open.disorderMs));
  const records = await listRecords(open, { receivedSince, limit: PUSHED_RECORDS });
  return records.flatMap(({ id, type, origin, event }) => {
    const at =
      origin === 'push' && event !== null && isEventType(type) && !isTestId(id) ? createdAtMs(event) : 0;
    return at > from ? [{ id, type, at }] : [];
  });
}

async function listRecords(
  { receiver, parts }: OpenSettings,
  options: Parameters<InboxOperations['list']>[0],
): Promise<readonly InboxRecord[]> {
  const inbox: Inbox<unknown> & Partial<Pick<InboxOperations, 'list'>> = receiver.inbox;
  return parts.store.ask(() => inbox.list?.(options) ?? []);
}

const FIRST_RECORDS = 500;

/** A list that contains no event as old as this one has lost events. */
export async function oldestReceived(open: OpenSettings, settledAt: number): Promise<OldestListed | null> {
  const records = await listRecords(open, { state: 'done', limit: FIRST_RECORDS });
  let at = Number.POSITIVE_INFINITY;
  for (const { type, event, receivedAt } of records) {
    const time = event === null ? receivedAt : createdAtMs(event);
    if (isEventType(type) && time <= settledAt) at = Math.min(at, time);
  }
  // No poll saw this event in the list, so it does not show how long the service keeps events.
  return Number.isFinite(at) ? { at, seenAt: 0 } : null;
}

/** A start date in the future moves back together with the watermark, so that the span between them keeps its length. */
export function toStart(
  { since: given, backfill, lagMs }: Pick<PollerSettings, 'since' | 'backfill' | 'lagMs'>,
  { since: stored, watermark }: PollState,
  { earlier, later }: Evidence['times']['clocks'],
) {
  let since = stored ?? earlier;
  if (since > later) since = earlier - Math.max(0, (watermark ?? since) - since);
  if (watermark === null) since = Math.min(given ?? since, earlier);
  const takeFrom = backfill ? Number.NEGATIVE_INFINITY : Math.min(given ?? since, since);
  // A clock that is wrong by less than the lag does no harm.
  return { since, takeFrom, wasAhead: stored !== null && stored > later + lagMs };
}

/** Only the first poll and the polls 1, 2, 4, … intervals after a gap opened spend requests on gaps. */
export function gapToTry(
  { gaps, watermark }: PollState,
  { intervalMs, lagMs }: Pick<PollerSettings, 'intervalMs' | 'lagMs'>,
  { startedAt, isFirst }: { readonly startedAt: number; readonly isFirst: boolean },
): number {
  const lastAt = (watermark ?? startedAt) + lagMs;
  let begin = Number.POSITIVE_INFINITY;
  let tries = isFirst;
  for (const { acknowledged, openedAt, from } of gaps) {
    if (acknowledged !== null) continue;
    begin = Math.min(from, begin);
    const steps = (time: number) => Math.floor(Math.log2(Math.max(0.5, (time - openedAt) / intervalMs)));
    tries ||= steps(startedAt) > steps(lastAt);
  }
  return tries ? begin : Number.POSITIVE_INFINITY;
}
