import { Command } from 'commander';
import { createdAtMs, isEventType, type UnknownEvent } from 'stablehooks';
import type { EventList } from 'stablehooks/client';
import { isAccepted, isDelivered, isNotDue, isWrongTarget } from '../io/answer.js';
import { type DeliveryRow, noteNotDue, noteUnaccepted, printRow, summarise } from '../io/delivery-rows.js';
import { usageError } from '../io/errors.js';
import { describeConflicts, describeCut, withoutCopies } from '../io/event-list.js';
import {
  countOf,
  EXIT,
  formatAge,
  interruptedExit,
  type Printer,
  toPlain,
  toPrintedJson,
  toTable,
} from '../io/output.js';
import { createSender } from '../io/sender.js';
import {
  addAction,
  addSecretFlags,
  addServiceFlags,
  type CommandContext,
  collectNames,
  knownTypes,
  type Moment,
  parseCount,
  parseEndpoint,
  parseMoment,
  parseWait,
  refuseFlags,
  toDate,
} from '../io/settings.js';

export function eventsCommand(): Command {
  return new Command('events')
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(replayCommand());
}

function listCommand(): Command {
  const command = new Command('list')
    .description('list events, newest first')
    .option('--undelivered', 'only events that no endpoint has accepted');
  addServiceFlags(addSelectionFlags(command, 50));
  return addAction(command, list, ['stablehooks events list --type transfer.failed --since 24h']);
}

async function list(context: CommandContext<SelectionFlags & { readonly undelivered?: boolean }>) {
  const { flags, printer } = context;
  const { events: selected, complete, texts } = await selectEvents(context);
  const events = selected.filter(({ delivered }) => !flags.undelivered || delivered !== true).toReversed();
  printEvents(printer, events, texts);
  if (events.length > 0 || complete) return EXIT.good;
  printer.note("This proves nothing, because the service's list may not contain every matching event.");
  return EXIT.failed;
}

function printEvents(printer: Printer, events: readonly UnknownEvent[], texts: Selection['texts']): void {
  if (printer.json) {
    for (const event of events) printer.print({ text: '', json: texts.get(event) ?? '' });
    return;
  }
  const { good, doubtful } = printer.paint;
  const rows = events.map(({ type, id, created_at, delivered }) => [
    type,
    id,
    formatAge(Date.now() - Date.parse(created_at)),
    { text: delivered ? 'yes' : 'no', paint: delivered ? good : doubtful },
  ]);
  printer.print({
    text: events.length === 0 ? 'No events.' : { whole: toTable(['type', 'id', 'age', 'delivered'], rows) },
    data: null,
  });
}

function showCommand(): Command {
  const command = new Command('show')
    .description('print an event in full')
    .argument('<id>', 'id of the event');
  addServiceFlags(addSelectionFlags(command, 1_000));
  return addAction(command, show, ['stablehooks events show evt_01 --json | jq .payload']);
}

async function show(context: CommandContext<SelectionFlags>) {
  const { args, printer } = context;
  const selection = await selectEvents(context);
  const [event] = pickEvents(selection, args);
  if (event === undefined) throw usageError('Pass the id of the event to show.');
  const json = selection.texts.get(event) ?? '';
  printer.print({ text: { whole: toPrintedJson(json) }, json });
  return selection.conflicting.has(event.id) ? EXIT.failed : EXIT.good;
}

interface ReplayFlags extends SelectionFlags {
  readonly to: string;
  readonly after?: string;
  readonly all?: boolean;
  readonly timeout: number;
}

function replayCommand(): Command {
  const command = new Command('replay')
    .description('re-sign events and resend them to an endpoint, oldest first')
    .argument('[ids...]', 'ids of the events, unless you pass --since or --all')
    .requiredOption('--to <url>', 'endpoint to send events to', parseEndpoint)
    .option('--after <id>', 'continue a stopped replay after this event')
    .option('--all', 'replay every event that the service lists')
    .option('--timeout <duration>', 'how long to wait for a response', parseWait, 10_000);
  addServiceFlags(addSecretFlags(addSelectionFlags(command, 1_000)));
  return addAction(command, replay, [
    'stablehooks events replay evt_01 evt_02 --to http://localhost:3000/hooks',
    'stablehooks events replay --since 2h --to http://localhost:3000/hooks',
  ]);
}

async function replay(context: CommandContext<ReplayFlags>) {
  const { args, flags, given, settings, printer, signal } = context;
  if (args.length === 0 && !flags.since && !flags.all)
    throw usageError('Pass the ids of the events to replay, --since TIME or --all.');
  if (args.length > 0) refuseFlags(given, ['all'], 'has no effect when you pass ids.');
  if (flags.since) refuseFlags(given, ['all'], 'has no effect together with --since.');
  const sender = await createSender(flags.to, settings, flags.timeout);
  const selection = await selectEvents(context);
  const events = skipTo(args.length > 0 ? pickEvents(selection, args) : selection.events, flags.after);

  const rows: DeliveryRow[] = [];
  for (const event of events) {
    if (signal.aborted) break;
    const { answer } = await sender.sendKept(Buffer.from(selection.texts.get(event) ?? ''));
    const row = { event, answer };
    // This event was not sent, so the next replay must start with it.
    if (row.answer.kind === 'unreachable') {
      printRow(printer, row);
      noteUnaccepted(printer, [row.answer]);
      printer.note(describeStop(rows, events.length));
      return EXIT.unreachable;
    }
    rows.push(row);
    printRow(printer, row);
    // If the first response shows a wrong endpoint, later events would go to the same endpoint.
    if (rows.length === 1 && isWrongTarget(row.answer)) break;
  }
  noteNotDue(
    printer,
    rows.flatMap(({ event, answer }) => (isNotDue(answer) ? [event.id] : [])),
  );
  const unaccepted = rows.flatMap(({ answer }) => (isAccepted(answer) ? [] : answer));
  noteUnaccepted(printer, unaccepted);
  if (rows.length < events.length) {
    printer.note(describeStop(rows, events.length));
    return signal.aborted ? interruptedExit() : EXIT.failed;
  }
  if (rows.length === 0) {
    printer.note('No event matches, so nothing was sent.');
    return EXIT.failed;
  }
  printer.note(summarise(rows, events.length));
  // If ids were passed, every event was found, even if the list is incomplete.
  const complete = args.length > 0 || selection.complete;
  if (!complete) {
    printer.note(
      "The service's list may be incomplete, and events that are missing from it were not sent. Pass the ids of these events, or use `stablehooks catch-up`, which can prove that no event is missing.",
    );
  }
  // If several different events share an id, the command may have sent the wrong one.
  const unsure =
    args.length > 0 ? args.some((id) => selection.conflicting.has(id)) : selection.conflicting.size > 0;
  return complete && !unsure && unaccepted.length === 0 ? EXIT.good : EXIT.failed;
}

function skipTo(events: readonly UnknownEvent[], after: string | undefined): readonly UnknownEvent[] {
  if (after === undefined) return events;
  const at = events.findIndex(({ id }) => id === after);
  if (at >= 0) return events.slice(at + 1);
  throw usageError(
    `--after ${toPlain(after)}: this event is not among the ${countOf(events.length, 'selected event')}. Check the id.`,
  );
}

/** The next run starts with the first event that did not get a 2xx, so that the exit code covers that event. */
function describeStop(rows: readonly DeliveryRow[], total: number): string {
  const refused = rows.find(({ answer }) => !isDelivered(answer));
  const last = (refused === undefined ? rows : rows.slice(0, rows.indexOf(refused))).at(-1);
  const next =
    last === undefined
      ? 'Run the same command again.'
      : `To continue, add --after ${toPlain(last.event.id)} to the same command.`;
  const again =
    refused === undefined
      ? ''
      : ` The next run starts with ${toPlain(refused.event.id)}, which was not accepted, and resends the events after it.`;
  return `Stopped: ${summarise(rows, total)}. ${next}${again}`;
}

interface SelectionFlags {
  readonly type?: readonly string[];
  readonly since?: Moment;
  readonly until?: Moment;
  readonly limit: number;
}

function addSelectionFlags(command: Command, limit: number): Command {
  return command
    .option(
      '--type <type>',
      'only events of this type, even if this release does not know it; can be repeated or comma-separated',
      collectNames,
    )
    .option(
      '--since <time>',
      'only events created at or after this time, such as 2h, 7d or 2026-01-31T12:00:00Z',
      parseMoment,
    )
    .option('--until <time>', 'only events created at or before this time', parseMoment)
    .option('--limit <number>', 'number of events to request per type', parseCount, limit);
}

interface Selection {
  /** Oldest first. If several events share an id, only the one that is listed first is selected. */
  readonly events: readonly UnknownEvent[];
  /** The exact JSON from the service. */
  readonly texts: ReadonlyMap<UnknownEvent, string>;
  /** The ids that several different events share. */
  readonly conflicting: ReadonlySet<string>;
  /** Whether every element is an event and no limit can have truncated the list. */
  readonly complete: boolean;
}

async function selectEvents({
  flags,
  settings,
  printer,
  signal,
}: CommandContext<SelectionFlags>): Promise<Selection> {
  const { type: types = [], since, until, limit } = flags;
  const now = Date.now();
  const from = since === undefined ? -Infinity : toDate(since, now).getTime();
  const to = until === undefined ? Infinity : toDate(until, now).getTime();
  if (from > to) throw usageError('--since must not be later than --until. Swap the two values.');
  const client = await settings.client();
  for (const type of types.filter((type) => !isEventType(type))) {
    printer.note(`This release does not know the event type ${toPlain(type)}. ${knownTypes()}`);
  }
  const listAll = () => client.events.listWithProblems({ limit, signal });
  const before = types.length === 0 ? undefined : await listAll();
  const pages: EventList[] = [];
  for (const type of types.length === 0 ? [undefined] : new Set(types)) {
    pages.push(await client.events.listWithProblems({ type, limit, signal }));
  }
  const [cut] = pages.flatMap(({ size }) => describeCut(size, limit) ?? []);
  if (cut !== undefined) printer.note(cut);
  const isWhole =
    cut === undefined &&
    (before === undefined || isFilteredFirst(pages, { before, after: await listAll(), limit }));
  if (cut === undefined && !isWhole) printer.note(FILTERED_LATE);
  const problems = pages.reduce((sum, page) => sum + page.problems.length, 0);
  if (problems > 0)
    printer.note(`Skipped ${countOf(problems, 'list element')}: not in the form of an event.`);
  const isSelected = (event: UnknownEvent) => createdAtMs(event) >= from && createdAtMs(event) <= to;
  const { events, others } = withoutCopies(pages.flatMap((page) => page.events));
  const ids = new Set(others.map(({ id }) => id));
  const selected = [...events.filter(({ id }) => ids.has(id)), ...others].filter(isSelected);
  const conflicting = new Set(selected.map(({ id }) => id));
  if (conflicting.size > 0)
    printer.note(`${describeConflicts([...conflicting])} The first one listed is used.`);
  return {
    texts: new Map(
      pages.flatMap((page) => page.events.map((event, index) => [event, page.json[index] ?? ''])),
    ),
    events: events.filter(isSelected).sort(byAge),
    conflicting,
    complete: isWhole && problems === 0,
  };
}

const FILTERED_LATE =
  'There may be more events: the service may truncate its list before it filters by type. Raise --limit, or omit --type.';

/**
 * Whether the service filters by type before it truncates the list, or did not truncate the list at all. A list of one
 * type proves the former if it contains an event that neither list of all types contains. Those lists are read before
 * and after, because events can be created in the meantime.
 */
function isFilteredFirst(
  pages: readonly EventList[],
  { before, after, limit }: { readonly before: EventList; readonly after: EventList; readonly limit: number },
): boolean {
  if (describeCut(after.size, limit) === undefined) return true;
  const shown = new Set([...before.events, ...after.events].map(({ id }) => id));
  return pages.some(({ events }) => events.some(({ id }) => !shown.has(id)));
}

function byAge(a: UnknownEvent, b: UnknownEvent): number {
  return createdAtMs(a) - createdAtMs(b) || (a.id < b.id ? -1 : 1);
}

function pickEvents({ events, complete }: Selection, ids: readonly string[]): readonly UnknownEvent[] {
  const known = new Set(events.map(({ id }) => id));
  const missing = ids.filter((id) => !known.has(id));
  if (missing.length > 0) {
    throw usageError(
      `Not among the ${countOf(events.length, 'selected event')}: ${toPlain(missing.join(', '))}. ${complete ? 'Check the id.' : "The service's list may be incomplete: pass the --type of these events or a different --limit, or check the ids."}`,
    );
  }
  return events.filter(({ id }) => ids.includes(id));
}
