import { saysTheSame } from '../catch-up/same-event.js';
import { createdAtMs, isEventType, type UnknownEvent } from '../core/events.js';
import type { InboxRecord } from '../core/ports.js';
import type { Comparison } from './comparison.js';
import type { LedgerEntry } from './options.js';
import { PAGE_SIZE, takeTurn } from './pages.js';
import { isIn } from './proof.js';
import type { ReadList } from './read-list.js';
import { recordPages } from './record-pages.js';

const MOVING = ['received', 'leased', 'failed'] as const;

/** No event is missed, because attempts end in a state that is read later, and taken events become `received`. */
const READING_ORDER = ['parked', 'dead', ...MOVING, ...MOVING, 'done', 'dead'] as const;

export class InboxReader<Entry extends LedgerEntry> {
  readonly #comparison: Comparison<Entry>;
  removedUntil = Number.NEGATIVE_INFINITY;
  firstAt = Number.POSITIVE_INFINITY;

  constructor(comparison: Comparison<Entry>) {
    this.#comparison = comparison;
  }

  async read(): Promise<void> {
    const { settings } = this.#comparison;
    const { inbox, onProgress } = settings;
    const total = (await inbox.count()).reduce((sum, { count }) => sum + count, 0);
    let done = 0;
    for (const state of READING_ORDER) {
      for await (const records of recordPages(inbox, { state, limit: PAGE_SIZE })) {
        for (const record of records) this.add(record);
        done += records.length;
        onProgress({ step: 'inbox', done, total: Math.max(done, total) });
        await takeTurn(settings);
      }
    }
  }

  /** Returns `false` if the event is outside the span. */
  add(record: InboxRecord): boolean {
    const { list, books, totals, daily, movements, settings } = this.#comparison;
    const { id, type, state } = record;
    this.firstAt = Math.min(this.firstAt, record.receivedAt);
    const place = placeInList(record, list);
    if (place === 'removed') this.removedUntil = list.shownFrom;
    const known = books.lines.get(id);
    if (known === undefined && !this.#isInSpan(record)) return false;
    if (known === undefined || known.state === null) {
      totals.inbox += 1;
      if (place !== 'listed' && record.event !== null) daily?.addEvent(record.event);
    }
    if (record.event !== null) movements.add(record.event);
    books.set(id, {
      state,
      booked: settings.ledgerTypes.has(type),
      unlisted: place === 'lacking',
      differs: known?.differs === true || isOther(record, list),
    });
    return true;
  }

  #isInSpan({ id, event, receivedAt }: InboxRecord): boolean {
    const { list, span } = this.#comparison;
    const listed = list.events.get(id);
    if (listed !== undefined) return isIn(span, listed.at);
    if (event !== null) return isIn(span, createdAtOf(event, { receivedAt, list }));
    // The event was pruned, but it must have been created before it was received.
    return receivedAt + list.lagMs > span.from;
  }
}

/** `lacking`: the list must contain the event, but doesn't. `removed`: the list is complete, but has only newer events. */
export function placeInList(
  { id, type, event, receivedAt }: InboxRecord,
  list: ReadList,
): 'listed' | 'lacking' | 'removed' | 'unknown' {
  if (list.events.has(id)) return 'listed';
  if (!isEventType(type)) return 'unknown';
  const isUnlisted = list.isEmpty || list.unlisted.has(id);
  const { until, ...proof } = list.proof[type];
  const from = isUnlisted ? Number.NEGATIVE_INFINITY : proof.from;
  // A pruned event was created before it was received, so a list that has every event would contain it.
  if (event === null) return from === Number.NEGATIVE_INFINITY && receivedAt <= until ? 'removed' : 'unknown';
  const at = createdAtOf(event, { receivedAt, list });
  if (at <= from || at > until) return 'unknown';
  return isUnlisted || at > list.shownFrom ? 'lacking' : 'removed';
}

/** Returns when the event was received if its creation time is implausibly later. */
function createdAtOf(
  event: UnknownEvent,
  { receivedAt, list }: { readonly receivedAt: number; readonly list: ReadList },
): number {
  const at = createdAtMs(event);
  return at > receivedAt + list.lagMs ? receivedAt : at;
}

/** Pruned events are not compared. */
export function isOther({ id, event }: InboxRecord, list: ReadList): boolean {
  const listed = list.events.get(id)?.event;
  return listed !== undefined && event !== null && !saysTheSame(listed, event);
}
