import { ConfigError } from '../core/errors.js';
import { createdAtMs, isDateTime } from '../core/events.js';
import type { InboxRecord } from '../core/ports.js';
import type { Comparison } from './comparison.js';
import type { LedgerEntry } from './options.js';
import { inPages, inParallel } from './pages.js';
import { isIn } from './proof.js';
import type { InboxReader } from './read-inbox.js';

export async function readLedger<Entry extends LedgerEntry>(
  comparison: Comparison<Entry>,
  inboxReader: InboxReader<Entry>,
): Promise<void> {
  const { settings, books, totals } = comparison;
  let done = 0;
  for await (const page of inPages(settings.ledger, settings)) {
    for (const entry of page) checkEntry(Object(entry));
    await inParallel(page, async (entry) => {
      const { id } = entry;
      const record = books.lines.has(id) ? undefined : await settings.inbox.find(id);
      if (!books.lines.has(id) && isOutside(entry, record)) {
        totals.outside += 1;
        return;
      }
      totals.entries += 1;
      books.set(id, { entries: (books.lines.get(id)?.entries ?? 0) + 1 });
      await compareEntry(entry, record, comparison);
    });
    done += page.length;
    settings.onProgress({ step: 'ledger', done, total: undefined });
  }

  function isOutside({ id, createdAt }: Entry, record: InboxRecord | undefined): boolean {
    if (record !== undefined) return !inboxReader.add(record);
    // A listed event that is not in the books was created outside the span.
    if (comparison.list.events.has(id)) return true;
    return createdAt !== undefined && !isIn(comparison.span, createdAtMs({ created_at: createdAt }));
  }
}

async function compareEntry<Entry extends LedgerEntry>(
  entry: Entry,
  record: InboxRecord | undefined,
  { books, list, totals, daily, log, settings: { compare, inbox } }: Comparison<Entry>,
): Promise<void> {
  const { id } = entry;
  const { state = null, entries = 1 } = books.lines.get(id) ?? {};
  const listed = list.events.get(id)?.event;
  const isOnlyInLedger = state === null && listed === undefined;
  if (isOnlyInLedger || (compare === undefined && daily === undefined)) return;
  const event = listed ?? record?.event ?? (await inbox.find(id))?.event;
  if (event == null) {
    totals.unjudged += 1;
    return;
  }
  daily?.addEntry(entry, event);
  if (compare === undefined) return;
  totals.compared += 1;
  const { type, created_at: createdAt } = event;
  for (const detail of [compare(entry, event) ?? []].flat()) {
    await log.add({ kind: 'mismatched', id, type, createdAt, state, entries, detail });
  }
}

/** Database rows are rarely typed, and an unreadable time would be treated as outside the span. */
function checkEntry({ id, createdAt }: LedgerEntry): void {
  if (typeof id !== 'string' || id === '') {
    throw new ConfigError(
      'reconcile: an entry in `ledger` has no `id`. Set it to the id of the event that the entry was written for.',
    );
  }
  if (createdAt === undefined || isDateTime(createdAt)) return;
  throw new ConfigError(
    'reconcile: the `createdAt` of an entry in `ledger` must be an RFC 3339 date-time with its UTC offset, such as 2026-01-31T12:00:00Z. Convert a Date with toISOString(). Omit `createdAt` if the ledger does not store it.',
  );
}
