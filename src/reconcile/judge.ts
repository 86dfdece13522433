import type { ListedEvent } from '../catch-up/list.js';
import { isEventType, isTestId } from '../core/events.js';
import type { BookLine } from './books.js';
import type { Comparison } from './comparison.js';
import type { LedgerEntry } from './options.js';
import { inPages, inParallel } from './pages.js';
import { isOther } from './read-inbox.js';
import type { FindingKind } from './report.js';

/** Resolves to the listed events that are in neither the inbox nor the ledger. */
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

/** Resolves to the listed event if it must be recorded. */
async function judgeLine<Entry extends LedgerEntry>(
  id: string,
  line: BookLine,
  { list, totals, log, settings }: Comparison<Entry>,
): Promise<readonly ListedEvent[]> {
  const { entries, booked } = line;
  // The event is looked up again, because its state may have changed since the inbox was read.
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
  if (entries > 1 && booked) await report('doubled', `The ledger has ${entries} entries for this event.`);
  if (entries > 0 && !booked) await report('extra', UNBOOKED);
  if (record.state === 'dead') await report('dead', entries > 0 ? DEAD_WITH_ENTRY : DEAD);
  else if (record.state === 'parked' && !isEventType(record.type)) totals.parked += 1;
  else if (record.state !== 'done') await report('waiting', entries > 0 ? WAITING_WITH_ENTRY : WAITING);
  else if (entries === 0 && booked) {
    // If the event was done only after the inbox or the ledger was read, its entry may not have been read.
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
        detail: `This event is about the same movement as ${first}. Check in the ledger that the movement took effect only once, and add a unique key for movements to the ledger.`,
      });
    }
  }
}

const EXTRA =
  "The ledger has an entry for this event, but neither the service's list nor the inbox has the event. Find out who wrote the entry.";
const UNBOOKED =
  'The ledger has an entry for this event, but events of its type should have none. Find out who wrote the entry.';
const UNSEEN_WITH_ENTRY =
  'The service lists this event, and the ledger has an entry for it, but the inbox does not have the event. The event was not recorded, because running it might double its effect. Find out who wrote the entry.';
const MISSING =
  'This event is done, but the ledger has no entry for it. Check the handler, and write the entry.';
const WAITING =
  "This event is in the inbox, but no attempt has succeeded. See its last error, and let your app's redrive or poller run the event.";
const WAITING_WITH_ENTRY =
  "The ledger has an entry for this event, but the event is not done, so another attempt may double its effect. The handler must write the entry in the inbox's transaction, or first check whether the entry exists.";
const DEAD = 'This event is dead-lettered. See its last error, and requeue it once you have fixed the cause.';
const DEAD_WITH_ENTRY =
  'This event is dead-lettered, but the ledger has an entry for it. Requeuing it may double its effect.';
const UNLISTED =
  'The inbox has this event, but the service does not list it although the list is complete for the time when the event was created. Check that the URL and the token belong to this environment. Ask the service whether it sent the event. If it did not, change the webhook secret.';
// Anyone with the secret can choose such an id.
const TESTED =
  'This event in the inbox has the id of a test event from `stablehooks doctor --run-handlers`. If you ran that command, reverse the effect of the event. If no one did, change the webhook secret.';
const CONFLICTING =
  'The event that the inbox has under this id differs from the listed event in its type, time or payload, so a handler may have run for the wrong event. Compare the two, and correct any wrong effect. If the service sent only the listed event, change the webhook secret.';
const LISTED_TWICE =
  'The service lists two different events with this id, of which the first is used. Ask the service which one is right.';
