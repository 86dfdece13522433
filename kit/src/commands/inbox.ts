import { Command, Option } from 'commander';
import {
  INBOX_STATES,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type UnknownEvent,
} from 'stablehooks';
import {
  createSender,
  type DeliveryRow,
  describeAnswer,
  type EndpointAnswer,
  isDelivered,
  isQueued,
  printRow,
  type Sender,
  summarise,
} from '../io/delivery.js';
import { usageError } from '../io/errors.js';
import { INBOX_PLACE, type OpenInbox, openInbox, withInbox } from '../io/inbox.js';
import {
  EXIT,
  type ExitCode,
  formatAge,
  interruptedExit,
  type Printer,
  toPlain,
  toTable,
} from '../io/output.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  type CommandContext,
  parseCount,
  parseDuration,
  parseUrl,
  parseWait,
} from '../io/settings.js';

export function inboxCommand(): Command {
  return new Command('inbox')
    .addCommand(statsCommand())
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(requeueCommand())
    .addCommand(redriveCommand())
    .addCommand(pruneCommand());
}

function statsCommand(): Command {
  const command = new Command('stats')
    .description('count the events of each state')
    .argument('<inbox>', INBOX_PLACE);
  addExample(command, ['stablehooks inbox stats events.db']);
  return addAction<object>(command, ({ args, printer }) =>
    withInbox(args[0], async (inbox) => {
      const counts = await inbox.count();
      const { bad } = printer.paint;
      const rows = counts.map(({ state, count, oldest }) => [
        state,
        state === 'dead' && count > 0 ? { text: String(count), paint: bad } : String(count),
        oldest === null ? '' : formatAge(Date.now() - oldest),
      ]);
      printer.print({ text: toTable(['state', 'events', 'oldest'], rows), data: counts });
      return EXIT.good;
    }),
  );
}

function listCommand(): Command {
  const command = new Command('list')
    .description('list events, oldest first')
    .argument('<inbox>', INBOX_PLACE)
    .addOption(new Option('--state <state>', 'only this state (default: all but done)').choices(INBOX_STATES))
    .option('--limit <number>', 'how many of a state at most', parseCount, 50);
  addExample(command, ['stablehooks inbox list events.db --state dead']);
  return addAction<{ readonly state?: InboxState; readonly limit: number }>(
    command,
    ({ args, flags, printer }) =>
      withInbox(args[0], async (inbox) => {
        const states =
          flags.state === undefined ? INBOX_STATES.filter((state) => state !== 'done') : [flags.state];
        const pages: (readonly InboxRecord[])[] = [];
        for (const state of states) pages.push(await inbox.list({ state, limit: flags.limit }));
        printRecords(printer, pages.flat());
        if (pages.some(({ length }) => length === flags.limit))
          printer.note('There may be more. Raise --limit.');
        return EXIT.good;
      }),
  );
}

function printRecords(printer: Printer, records: readonly InboxRecord[]): void {
  if (printer.json) {
    for (const record of records) printer.print({ text: '', data: record });
    return;
  }
  const rows = records.map(({ type, id, state, attempts, receivedAt, lastError }) => [
    type,
    id,
    state,
    String(attempts),
    formatAge(Date.now() - receivedAt),
    lastError ?? '',
  ]);
  const columns = ['type', 'id', 'state', 'attempts', 'age', 'last error'];
  printer.print({ text: records.length === 0 ? 'No events.' : toTable(columns, rows), data: null });
}

function showCommand(): Command {
  const command = new Command('show')
    .description('print the record of one event, with its last attempts')
    .argument('<inbox>', INBOX_PLACE)
    .argument('<id>', 'id of the event');
  addExample(command, ['stablehooks inbox show events.db evt_01']);
  return addAction<object>(command, ({ args, printer }) =>
    withInbox(args[0], async (inbox) => {
      const id = args[1] ?? '';
      const record = await inbox.find(id);
      if (record === undefined) throw usageError(`The inbox has no event ${toPlain(id)}. Check the id.`);
      printer.print({ text: JSON.stringify(withTimes(record), null, 2), data: record });
      return EXIT.good;
    }),
  );
}

/** The record with its times as ISO 8601 strings. */
function withTimes(record: InboxRecord): object {
  const toTime = (ms: number) => new Date(ms).toISOString();
  const { receivedAt, updatedAt, dueAt, history } = record;
  return {
    ...record,
    receivedAt: toTime(receivedAt),
    updatedAt: toTime(updatedAt),
    dueAt: dueAt === null ? null : toTime(dueAt),
    history: history.map(({ startedAt, endedAt, ...attempt }) => ({
      ...attempt,
      startedAt: toTime(startedAt),
      endedAt: toTime(endedAt),
    })),
  };
}

const IDS = 'ids of dead or failed events (default: all that are dead)';

function requeueCommand(): Command {
  const command = new Command('requeue')
    .description('make dead or failed events due now; the next delivery or redrive runs them')
    .argument('<inbox>', INBOX_PLACE)
    .argument('[ids...]', IDS);
  addExample(command, ['stablehooks inbox requeue events.db evt_01']);
  return addAction<object>(command, ({ args, printer }) =>
    withInbox(args[0], async (inbox) => {
      const picked = await pickRequeueable(inbox, args.slice(1));
      let requeued = 0;
      for (const { id } of picked) {
        if (await requeueOrNote(id, inbox, printer)) requeued += 1;
      }
      const text = picked.length === 0 ? 'No dead events.' : describeRequeued(requeued);
      printer.print({ text, data: { requeued } });
      return EXIT.good;
    }),
  );
}

function describeRequeued(count: number): string {
  const counted = `${countEvents(count)} requeued`;
  if (count === 0) return `${counted}.`;
  return `${counted}; the receiver's redrive() or its poller runs ${count === 1 ? 'it' : 'them'}, or the next delivery.`;
}

function countEvents(count: number): string {
  return count === 1 ? '1 event' : `${count} events`;
}

/** Requeues an event. Answers `false`, and says so, when another process took it after it was listed. */
async function requeueOrNote(id: string, inbox: InboxOperations, printer: Printer): Promise<boolean> {
  const requeued = await inbox.requeue(id);
  if (!requeued) {
    printer.note(`${toPlain(id)} is no longer dead or failed: another process requeued it. It is skipped.`);
  }
  return requeued;
}

interface RedriveFlags {
  readonly to: string;
  readonly timeout: number;
}

function redriveCommand(): Command {
  const command = new Command('redrive')
    .description('requeue dead or failed events, and send them to an endpoint')
    .argument('<inbox>', INBOX_PLACE)
    .argument('[ids...]', IDS)
    .requiredOption('--to <url>', 'endpoint that runs them; `inbox requeue` leaves that to the app')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000);
  addSecretFlags(command);
  addExample(command, ['stablehooks inbox redrive events.db --to http://localhost:3000/hooks']);
  return addAction(command, redrive);
}

async function redrive({
  args,
  flags,
  settings,
  printer,
  signal,
}: CommandContext<RedriveFlags>): Promise<ExitCode> {
  const [place = '', ...ids] = args;
  const sender = await createSender(parseUrl(flags.to, '--to'), settings, flags.timeout);
  const inbox = await openInbox(place);
  try {
    const picked = await pickRequeueable(inbox, ids);
    const rows: RedriveRow[] = [];
    let skipped = 0;
    const progress = printer.progress('redrive', picked.length);
    for (const record of picked) {
      const { event } = record;
      if (signal.aborted || rows.at(-1)?.answer.kind === 'unreachable') break;
      if (event === null) continue;
      // Sent from here, too, an event that another process requeued could run twice.
      if (!(await requeueOrNote(event.id, inbox, printer))) {
        skipped += 1;
        continue;
      }
      const row = { event, ...(await runAgain({ event, record }, inbox, sender)) };
      rows.push(row);
      printRow(printer, row);
      progress.show(rows.length + skipped);
    }
    progress.clear();
    const total = picked.length - skipped;
    printer.note(
      `${summarise(rows, total)}. What was not accepted is still in the inbox: dead, or failed until its retry time.`,
    );
    const queued = rows.filter((row) => row.queued).length;
    if (queued > 0) {
      printer.note(
        `${queued} queued: a worker of the endpoint runs ${queued === 1 ? 'it' : 'them'}, and the effect was not shown. See \`stablehooks inbox show\` later.`,
      );
    }
    if (signal.aborted) return interruptedExit();
    if (rows.some(({ answer }) => answer.kind === 'unreachable')) return EXIT.unreachable;
    return rows.every(({ answer, queued }) => isDelivered(answer) && !queued) ? EXIT.good : EXIT.failed;
  } finally {
    await inbox.close();
  }
}

/** How many records are read at a time. */
const PAGE_SIZE = 500;

/** @throws {CommandError} exit 2 when one of the ids is neither dead nor failed. */
async function pickRequeueable(
  inbox: InboxOperations,
  ids: readonly string[],
): Promise<readonly InboxRecord[]> {
  if (ids.length > 0) {
    const found = await Promise.all(
      [...new Set(ids)].map(async (id) => ({ id, record: await inbox.find(id) })),
    );
    const wrong = found.find(({ record }) => record?.state !== 'dead' && record?.state !== 'failed');
    if (wrong !== undefined) {
      throw usageError(
        `${toPlain(wrong.id)} is ${wrong.record?.state ?? 'not in this inbox'}, not dead or failed. See \`stablehooks inbox list\`.`,
      );
    }
    return found.flatMap(({ record }) => record ?? []);
  }
  const dead: InboxRecord[] = [];
  for (let more = true; more; ) {
    const page = await inbox.list({ state: 'dead', limit: PAGE_SIZE, after: dead.at(-1)?.id });
    dead.push(...page);
    more = page.length === PAGE_SIZE;
  }
  return dead;
}

/** A row of `redrive`. */
interface RedriveRow extends DeliveryRow, Redriven {}

/** How an event was sent again. */
interface Redriven {
  readonly answer: EndpointAnswer;
  /** Whether the endpoint only accepted it for later, so that the answer does not show its effect. */
  readonly queued: boolean;
}

/**
 * Sends a requeued event. If the endpoint uses this same inbox, it records the result itself, and a lease held here
 * would block it. If it does not, the result is recorded here, by its answer: what was not accepted becomes again what
 * it was, dead or failed until its retry time. A queued event stays received, so that the worker can claim it.
 *
 * @param before - the event, and its record before it was requeued.
 */
async function runAgain(
  before: { readonly event: UnknownEvent; readonly record: InboxRecord },
  inbox: OpenInbox,
  sender: Sender,
): Promise<Redriven> {
  const { event, record } = before;
  const answer = await sender.send(event);
  const state = (await inbox.find(event.id))?.state;
  const queued = isQueued(answer) && state !== 'done';
  if (queued || state !== 'received') return { answer, queued };
  const claim = await inbox.claim(event, { leaseMs: LEASE_MS, origin: 'redrive' });
  if (claim.state !== 'claimed') return { answer, queued };
  if (isDelivered(answer)) await inbox.complete(claim.lease);
  else {
    const retryAfterMs = record.state === 'dead' ? null : Math.max(0, (record.dueAt ?? 0) - Date.now());
    await inbox.fail(claim.lease, { retryAfterMs, error: `redrive: ${describeAnswer(answer)}` });
  }
  return { answer, queued };
}

/** The result is recorded in the next step. */
const LEASE_MS = 5_000;

function pruneCommand(): Command {
  const command = new Command('prune')
    .description('delete the JSON of done events; their ids stay, so that replays stay duplicates')
    .argument('<inbox>', INBOX_PLACE)
    .requiredOption('--older-than <duration>', 'how long the events must have been done', parseDuration);
  addExample(command, ['stablehooks inbox prune events.db --older-than 30d']);
  return addAction<{ readonly olderThan: number }>(command, ({ args, flags, printer }) =>
    withInbox(args[0], async (inbox) => {
      const pruned = await inbox.prune({ olderThanMs: flags.olderThan });
      printer.print({
        text: `${countEvents(pruned)} pruned; ${pruned === 1 ? 'its id is' : 'their ids are'} kept.`,
        data: { pruned },
      });
      return EXIT.good;
    }),
  );
}
