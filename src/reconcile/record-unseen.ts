import type { ListedEvent } from '../catch-up/list.js';
import { isEventType } from '../core/events.js';
import type { Comparison } from './comparison.js';
import type { LedgerEntry } from './options.js';
import { inPages } from './pages.js';

export async function recordUnseen<Entry extends LedgerEntry>(
  unseen: readonly ListedEvent[],
  comparison: Comparison<Entry>,
): Promise<void> {
  // Like the poller, this parks events of unknown types.
  for (const dueInMs of [0, null]) {
    const events = unseen.filter(({ event }) => isEventType(event.type) === (dueInMs === 0));
    for await (const page of inPages(events, comparison.settings)) {
      await recordPage(page, dueInMs, comparison);
    }
  }
}

async function recordPage<Entry extends LedgerEntry>(
  page: readonly ListedEvent[],
  dueInMs: number | null,
  { settings: { inbox, dryRun }, totals, log }: Comparison<Entry>,
): Promise<void> {
  const events = page.map(({ event }) => event);
  const json = page.map((listed) => listed.json);
  const results = dryRun ? [] : await inbox.record(events, { dueInMs, origin: 'pull', json });
  for (const [index, { id, type, created_at: createdAt }] of events.entries()) {
    if (!dryRun && results[index] !== 'new') {
      // The event has just arrived by push.
      totals.unjudged += 1;
      continue;
    }
    if (!dryRun) totals.recorded += 1;
    const state = dryRun ? null : dueInMs === null ? 'parked' : 'received';
    const detail = dryRun ? UNSEEN : RECORDED;
    await log.add({ kind: 'unseen', id, type, createdAt, state, entries: 0, detail });
  }
}

const UNSEEN =
  'The service lists this event, but the inbox does not have it. Reconcile without a dry run to record it.';
const RECORDED =
  "The service lists this event, but the inbox did not have it. It has been recorded, and your app's redrive or poller will run it.";
