import type { ListedEvent } from '../catch-up/list.js';
import { isEventType, isTestId } from '../core/events.js';
import type { BookLine } from './books.js';
import type { Comparison } from './comparison.js';
import type { LedgerEntry } from './options.js';
import { inPages, inParallel } from './pages.js';
import { isOther } from './read-inbox.js';
import type { FindingKind } from './report.js';

/** Judges every id of the books, and resolves to the listed events that neither the inbox nor the ledger has. */
export async function judgeBooks<Entry extends LedgerEntry>(
  comparison: Comparison<Entry>,
): Promise<readonly ListedEvent[]> {
  const { books, settings } = comparison;
  const unseen: ListedEvent[] = [];
  let done = 0;
  for await (const page of inPages(books.lines, settings)) {
    await inParallel(page, async ([id, line]) => {
      if (isInOrder(line) && !comparison.list.conflicts.has(id)) return;
      unseen.push(...(await judgeLine(id, line, comparison)));
    });
    done += page.length;
    settings.onProgress({ step: 'findings', done, total: books.lines.size });
  }
  return unseen;
}

function isInOrder({ state, entries, booked, unlisted, differs }: BookLine): boolean {
  return state === 'done' && entries === (booked ? 1 : 0) && !unlisted && !differs;
}

/** Reports the findings about an id, and resolves to its event if that is to be recorded. */
async function judgeLine<Entry extends LedgerEntry>(
  id: string,
  line: BookLine,
  { list, totals, log, settings }: Comparison<Entry>,
): Promise<readonly ListedEvent[]> {
  const { entries, booked } = line;
  // Looked up again, because its state may have changed since the inbox was read.
  const record = await settings.inbox.find(id);
  const listed = list.events.get(id);
  const event = listed?.event ?? record?.event;
  const type = event?.type ?? record?.type ?? null;
  const createdAt = event?.created_at ?? null;
  const report = (kind: FindingKind, detail: string) =>
    log.add({ kind, id, type, createdAt, state: record?.state ?? null, entries, detail });

  if (list.conflicts.has(id)) await report('conflicting', LISTED_TWICE);
  if (record === undefined) {
    if (listed !== undefined && entries === 0) return [listed];
    await (listed === undefined ? report('extra', EXTRA) : report('unseen', UNSEEN_WITH_ENTRY));
    return [];
  }
  if (line.differs || isOther(record, list)) await report('conflicting', CONFLICTING);
  if (line.unlisted) await report('unlisted', isTestId(id) ? TESTED : UNLISTED);
  if (entries > 1 && booked) await report('doubled', `The ledger has ${entries} entries for it.`);
  if (entries > 0 && !booked) await report('extra', UNBOOKED);
  if (record.state === 'dead') await report('dead', entries > 0 ? DEAD_WITH_ENTRY : DEAD);
  else if (record.state === 'parked' && !isEventType(record.type)) totals.parked += 1;
  else if (record.state !== 'done') await report('waiting', entries > 0 ? WAITING_WITH_ENTRY : WAITING);
  else if (entries === 0 && booked) {
    // It ended after the inbox or the ledger was read, so its entry may be newer than that; or it is pruned.
    const isSettled = line.state === 'done' && record.updatedAt < settings.copiedAt;
    if (isSettled && event != null) await report('missing', MISSING);
    else totals.unjudged += 1;
  }
  return [];
}

export async function judgeMovements<Entry extends LedgerEntry>({
  list,
  log,
  books,
  movements,
  settings,
}: Comparison<Entry>): Promise<void> {
  for (const [first, ...others] of movements.repeated()) {
    for (const id of others) {
      const record = await settings.inbox.find(id);
      const event = list.events.get(id)?.event ?? record?.event;
      const { entries = 0 } = books.lines.get(id) ?? {};
      await log.add({
        ...{ kind: 'duplicate-movement', id, entries, state: record?.state ?? null },
        ...{ type: event?.type ?? null, createdAt: event?.created_at ?? null },
        detail: `It is about the same movement as ${first}. Check in the ledger that it took effect once, and give the ledger a unique key of the movement.`,
      });
    }
  }
}

const EXTRA =
  'The ledger has an entry for it, and neither the list nor the inbox has the event. Find out who wrote it.';
const UNBOOKED = 'The ledger has an entry for it, and events of its type have none. Find out who wrote it.';
const UNSEEN_WITH_ENTRY =
  'The service lists it and the ledger has an entry for it, but the inbox does not have it. It is not recorded, because to run it could double its effect. Find out who wrote the entry.';
const MISSING = 'It is done, and the ledger has no entry for it. Check its handler, and write the entry.';
const WAITING =
  'It is in the inbox, and no attempt has succeeded. See its last error, and let the redrive or the poller run it.';
const WAITING_WITH_ENTRY =
  'The ledger has an entry for it, but it is not done: another attempt may double its effect. Its handler must write the entry in the transaction of the inbox, or check for it.';
const DEAD = 'It is dead-lettered. See its last error; requeue it when the cause is fixed.';
const DEAD_WITH_ENTRY =
  'It is dead-lettered, but the ledger has an entry for it: requeuing it may double its effect.';
const UNLISTED =
  'The inbox has it, and the service does not list it, although the list was complete for its time. Check that the URL and the token belong to this environment. Ask the service whether it sent it; if not, change the webhook secret.';
// Anyone with the secret can choose such an id.
const TESTED =
  'The inbox has it, and its id is that of an event of `stablehooks doctor --run-handlers`. If you ran that, reverse its effect. If nobody did, change the webhook secret.';
const CONFLICTING =
  'The inbox has another event with this id than the service lists: the type, the time or the payload differs, and a handler may have run for the wrong one. Compare the two and correct its effect. If the service sent only the listed one, change the webhook secret.';
const LISTED_TWICE =
  'The service lists two different events with this id, and the first one counts. Ask the service which one is right.';
