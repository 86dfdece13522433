import { toIso } from '../catch-up/gap-text.js';
import { DOUBTFUL } from '../catch-up/problems.js';
import { readPollState } from '../catch-up/state.js';
import { ConfigError } from '../core/errors.js';
import { Books } from './books.js';
import type { Comparison } from './comparison.js';
import { DailyTotals } from './daily.js';
import { judgeBooks, judgeMovements } from './judge.js';
import { Movements } from './movements.js';
import {
  type LedgerEntry,
  type ReconcileOptions,
  type ReconcileSettings,
  toReconcileSettings,
} from './options.js';
import { findUnproven, isIn, type Span } from './proof.js';
import { InboxReader } from './read-inbox.js';
import { readLedger } from './read-ledger.js';
import { type ReadList, readList } from './read-list.js';
import { recordUnseen } from './record-unseen.js';
import { describeResult, FindingLog, type ReconcileResult } from './report.js';

/**
 * Compares three books: the service's event list, the inbox, and your app's ledger. `reconcile` runs no handlers.
 *
 * Your app can keep receiving events during the run. The inbox is read before the ledger, so every entry is found together
 * with its event. Suspicious ids are looked up again before they are reported. An id that could be either right or wrong is
 * counted as `unjudged`. Records and entries are read page by page, so only their ids stay in memory.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or invalid, when the span ends before
 * the poller's start date, or when the `id` or `createdAt` of an entry is malformed.
 * @throws {StablehooksError} `ERR_INBOX_FAILED` when the inbox fails.
 * @throws the client's error when the service's list could not be read, any error that `ledger`, `compare` or `onFinding`
 * throws, and the signal's reason when `signal` aborts.
 *
 * @example
 * ```ts
 * const result = await reconcile({ client, inbox, ledger, since: new Date('2026-01-01'), dryRun: true });
 * if (!result.agree) console.error(result.diagnosis, result.findings);
 * ```
 */
export async function reconcile<Entry extends LedgerEntry>(
  options: ReconcileOptions<Entry>,
): Promise<ReconcileResult> {
  const settings = toReconcileSettings(options);
  // The state is read before the inbox, so that the inbox has every event that the state covers.
  const state = await readPollState(settings.inbox);
  const since = Math.max(settings.since.getTime(), state.since ?? Number.NEGATIVE_INFINITY);
  const list = await readList({ ...settings, since, state, startedAt: settings.runtime.now() });
  const span = toSpan(since, { list, settings });
  const comparison: Comparison<Entry> = {
    settings,
    span,
    list,
    books: new Books(),
    totals: { listed: 0, inbox: 0, entries: 0, outside: 0, compared: 0, parked: 0, recorded: 0, unjudged: 0 },
    daily: settings.daily ? new DailyTotals(settings.amounts) : undefined,
    movements: new Movements(settings.keyOf),
    log: new FindingLog(settings.onFinding),
  };
  const inboxReader = new InboxReader(comparison);
  addListed(comparison);
  await inboxReader.read();
  await readLedger(comparison, inboxReader);
  await recordUnseen(await judgeBooks(comparison), comparison);
  await judgeMovements(comparison);

  const watermark = state.watermark && Math.min(state.watermark, list.settledAt);
  const { removedUntil, firstAt } = inboxReader;
  const proofs = { list: list.proof, state: { ...state, watermark }, removedUntil, firstAt };
  const unproven = findUnproven(span, proofs).map((part) => ({
    ...part,
    from: toIso(part.from),
    until: toIso(part.until),
  }));
  const { log, totals, daily } = comparison;
  const summary = {
    findings: log.found,
    totals,
    unproven,
    since: toIso(since),
    until: toIso(span.until + 1),
    dryRun: settings.dryRun,
  };
  const oldestListed = list.shownFrom - settings.lagMs - settings.disorderMs;
  const shownFrom = Math.min(oldestListed, firstAt, state.seen?.shownFrom ?? Number.POSITIVE_INFINITY);
  // This applies even if every event in the inbox has been pruned, or is so old that the service has removed it.
  const isElsewhere = list.isEmpty && totals.inbox + totals.entries > 0;
  const notes = noteComparison({
    since,
    shownFrom: unproven.length === 0 ? shownFrom : since,
    list,
    settings,
  });
  return {
    agree:
      log.isEmpty() && unproven.length === 0 && totals.unjudged === 0 && !isDoubtful(list) && !isElsewhere,
    complete: unproven.length === 0,
    diagnosis: describeResult({ ...summary, notes: isElsewhere ? [ELSEWHERE, ...notes] : notes }),
    ...summary,
    daily: daily?.list() ?? null,
    problems: list.problems,
    requests: list.requests,
  };
}

function toSpan<Entry extends LedgerEntry>(
  since: number,
  { list, settings }: { readonly list: ReadList; readonly settings: ReconcileSettings<Entry> },
): Span {
  const until = settings.until?.getTime() ?? Math.min(list.settledAt, settings.copiedAt);
  if (until > since) return { from: since - 1, until: until - 1 };
  throw new ConfigError(
    `reconcile: the span is empty. It begins at ${toIso(since)} (\`since\`, or the poller's start date) and ends at ${toIso(until)} (\`until\`, or \`lagMs\` before now, or \`copiedAt\`).`,
  );
}

const ELSEWHERE =
  "The service's list is empty, but the inbox or the ledger is not. Check that the client's URL and token belong to this environment.";

function isDoubtful({ problems }: ReadList): boolean {
  return problems.some(({ code }) => DOUBTFUL.has(code));
}

function noteComparison<Entry extends LedgerEntry>({
  since,
  shownFrom,
  list,
  settings,
}: {
  readonly since: number;
  readonly shownFrom: number;
  readonly list: ReadList;
  readonly settings: ReconcileSettings<Entry>;
}): readonly string[] {
  const notes: string[] = [];
  if (isDoubtful(list)) notes.push("The service's list contradicts itself. See `problems` for details.");
  if (since > settings.since.getTime())
    notes.push("The span begins at the poller's start date, not at `since`.");
  if (settings.until === undefined && settings.copiedAt < list.settledAt) {
    notes.push('The span ends when the ledger was copied (`copiedAt`).');
  }
  if (Number.isFinite(shownFrom) && shownFrom > since) {
    notes.push(
      `No book contains an event from before ${toIso(shownFrom)}, so it is unknown whether the service keeps events for that long.`,
    );
  }
  return notes;
}

function addListed<Entry extends LedgerEntry>(comparison: Comparison<Entry>): void {
  const { settings, span, list, books, totals, daily, movements } = comparison;
  for (const [id, { event, at }] of list.events) {
    if (!isIn(span, at)) continue;
    totals.listed += 1;
    books.set(id, { booked: settings.ledgerTypes.has(event.type) });
    daily?.addEvent(event);
    movements.add(event);
  }
}
