import { Command } from 'commander';
import { encodeEvent, INBOX_STATES, type InboxOperations, type InboxRecord } from 'stablehooks';
import { groupErrors } from '../explain/error-groups.js';
import { canAsk, confirm } from '../io/confirm.js';
import { usageError } from '../io/errors.js';
import { findEvents, mustRead, toInboxFilter } from '../io/event-filter.js';
import {
  addInboxAction,
  addInboxFlags,
  type InboxFlags,
  type OpenInbox,
  toInboxWords,
  withInbox,
} from '../io/inbox.js';
import { addFilterFlags, type FilterFlags, IGNORED_FLAG, noteUnread, toFilter } from '../io/inbox-filter.js';
import {
  countOf,
  EXIT,
  formatAge,
  formatDuration,
  interruptedExit,
  type Printer,
  toPlain,
  toPrintedJson,
  toTable,
} from '../io/output.js';
import { addAction, type CommandContext, parseCount, parseDuration } from '../io/settings.js';
import { toShellWord } from '../shell-word.js';
import { discardCommand, importCommand, requeueCommand } from './inbox-actions.js';
import { runCommand } from './inbox-run.js';

export function inboxCommand(): Command {
  return new Command('inbox')
    .addCommand(statsCommand())
    .addCommand(listCommand())
    .addCommand(errorsCommand())
    .addCommand(showCommand())
    .addCommand(requeueCommand())
    .addCommand(runCommand())
    .addCommand(discardCommand())
    .addCommand(importCommand())
    .addCommand(pruneCommand());
}

function statsCommand(): Command {
  const command = addInboxFlags(new Command('stats').description('count events by state'));
  return addInboxAction(command, stats, ['stablehooks inbox stats --inbox events.db']);
}

async function stats(inbox: OpenInbox, { printer }: CommandContext<InboxFlags>) {
  const counts = await inbox.count();
  const { bad } = printer.paint;
  const rows = counts.map(({ state, count, oldest }) => [
    state,
    state === 'dead' && count > 0 ? { text: String(count), paint: bad } : String(count),
    oldest === null ? '' : formatAge(Date.now() - oldest),
  ]);
  const data = counts.map((each) => ({ ...each, oldest: toTime(each.oldest) }));
  printer.print({ text: { whole: toTable(['state', 'events', 'unchanged for'], rows) }, data });
  return EXIT.good;
}

function listCommand(): Command {
  const command = addFilterFlags(new Command('list').description('list events, newest first'), INBOX_STATES)
    .option(...IGNORED_FLAG)
    .option('--limit <number>', 'maximum number of events', parseCount, 50);
  return addAction(command, list, ['stablehooks inbox list --inbox events.db --state dead']);
}

async function list({ flags, printer }: CommandContext<FilterFlags & { readonly limit: number }>) {
  const { limit } = flags;
  const filter = toFilter(flags, printer);
  return withInbox(flags, async (inbox) => {
    const records: InboxRecord[] = [];
    let matching = 0;
    let unread = 0;
    for await (const record of findEvents(inbox, filter, { order: 'newest', onUnread: () => unread++ })) {
      matching += 1;
      if (matching <= limit) records.push(record);
      else if (!mustRead(filter)) break;
    }
    printRecords(printer, records);
    if (matching === 0 && Object.keys(filter).length > 0) {
      const total = (await inbox.count()).reduce((sum, { count }) => sum + count, 0);
      if (total > 0) printer.note(`None of the ${countOf(total, 'event')} in this inbox matches.`);
    }
    noteUnread(printer, unread);
    if (matching > limit) {
      const counts = mustRead(filter) ? [] : await inbox.count(toInboxFilter(filter));
      const total = counts.reduce((sum, { count }) => sum + count, 0);
      printer.note(
        `Showing ${limit} of ${countOf(total || matching, 'matching event')}. Raise --limit to see more.`,
      );
    }
    return EXIT.good;
  });
}

function printRecords(printer: Printer, records: readonly InboxRecord[]): void {
  if (printer.json) {
    for (const record of records) printer.print({ text: '', json: toJson(record) });
    return;
  }
  if (records.length === 0) {
    printer.print({ text: 'No events.', data: null });
    return;
  }
  const rows = records.map(({ type, id, state, ignored, receivedAt }) => [
    type,
    id,
    ignored ? 'done (ignored)' : state,
    formatAge(Date.now() - receivedAt),
  ]);
  const [head = '', ...lines] = toTable(['type', 'id', 'state', 'age'], rows).split('\n');
  const text = records.flatMap(({ attempts, lastError }, index) => [
    { whole: lines[index] ?? '' },
    ...(lastError === null ? [] : [`  ${countOf(attempts, 'attempt')}: ${toPlain(lastError)}`]),
  ]);
  printer.print({ text: [{ whole: head }, ...text], data: null });
}

function errorsCommand(): Command {
  const command = addInboxFlags(new Command('errors').description('group dead and failed events by error'));
  return addInboxAction(command, errors, ['stablehooks inbox errors --inbox events.db']);
}

async function errors(inbox: OpenInbox, { flags, printer }: CommandContext<InboxFlags>) {
  const { groups, isCut } = await groupErrors(inbox);
  const age = (at: number) => formatAge(Date.now() - at);
  const rows = groups.map(({ count, state, first, last, types }) => [
    ...[String(count), state, age(first), age(last), types.join(', ')],
  ]);
  const [head = '', ...lines] = toTable(['events', 'state', 'first', 'last', 'types'], rows).split('\n');
  if (groups.length === 0) printer.print({ text: 'No events are dead or failed.', data: null });
  else if (!printer.json) printer.print({ text: { whole: head }, data: null });
  for (const [index, group] of groups.entries()) {
    const { state, error, first, last } = group;
    const select = `--state ${state} --group ${toShellWord(toPlain(error))}`;
    printer.print({
      text: [
        { whole: lines[index] ?? '' },
        `  ${toPlain(error)}`,
        { whole: `  stablehooks inbox requeue${toInboxWords(flags)} ${select}` },
      ],
      data: { ...group, first: toTime(first), last: toTime(last) },
    });
  }
  if (isCut) printer.note('Older events were not read, so the counts are too low.');
  return EXIT.good;
}

interface ShowFlags extends InboxFlags {
  readonly body?: boolean;
}

function showCommand(): Command {
  const command = addInboxFlags(
    new Command('show')
      .description('print the record of one event and its last 10 attempts')
      .argument('<id>', 'id of the event'),
  ).option('--body', 'print only the stored text of the event, byte for byte as it was signed or listed');
  return addInboxAction(command, show, ['stablehooks inbox show evt_01 --inbox events.db']);
}

async function show(inbox: OpenInbox, { args: [id = ''], flags, printer }: CommandContext<ShowFlags>) {
  const record = await inbox.find(id);
  if (record === undefined) throw usageError(`The inbox has no event ${toPlain(id)}. Check the id.`);
  if (flags.body) {
    if (record.event === null)
      throw usageError(`The text of ${toPlain(id)} has been pruned or cannot be read.`);
    printer.printExact(encodeEvent(record.event));
    return EXIT.good;
  }
  const steps = (await inbox.steps(id)).map(({ at, result, ...step }) => ({
    ...step,
    at: toTime(at),
    // A result can be 64 kB long, so only the JSON output contains it.
    ...(printer.json ? { result } : { hasResult: result !== null }),
  }));
  const json = toJson(record, steps.length > 0 ? { steps } : {});
  printer.print({ text: { whole: toPrintedJson(json) }, json });
  return EXIT.good;
}

function toJson({ event, ...record }: InboxRecord, more: object = {}): string {
  const rest = JSON.stringify({ ...withTimes(record), ...more });
  return `${rest.slice(0, -1)},"event":${event === null ? 'null' : encodeEvent(event)}}`;
}

function withTimes(record: Omit<InboxRecord, 'event'>): object {
  const { receivedAt, updatedAt, dueAt, history } = record;
  return {
    ...record,
    receivedAt: toTime(receivedAt),
    updatedAt: toTime(updatedAt),
    dueAt: toTime(dueAt),
    history: history.map(({ startedAt, endedAt, ...attempt }) => ({
      ...attempt,
      startedAt: toTime(startedAt),
      endedAt: toTime(endedAt),
    })),
  };
}

function toTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

interface PruneFlags extends InboxFlags {
  readonly olderThan: number;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

function pruneCommand(): Command {
  const command = addInboxFlags(
    new Command('prune').description(
      'delete the JSON of events that are done but keep their ids, so that redeliveries are recognised as duplicates',
    ),
  )
    .requiredOption(
      '--older-than <duration>',
      'prune only events that have been done for at least this long',
      parseDuration,
    )
    .option('--dry-run', 'only print how many events would be pruned')
    .option('--yes', 'prune without asking');
  return addAction(command, prune, ['stablehooks inbox prune --inbox events.db --older-than 30d --dry-run']);
}

async function prune({ flags, printer, signal }: CommandContext<PruneFlags>) {
  const { olderThan: olderThanMs, dryRun = false, yes = false } = flags;
  if (dryRun && yes)
    throw usageError('--dry-run deletes nothing, so there is nothing to confirm with --yes.');
  if (!dryRun && !yes && !canAsk()) {
    throw usageError('Pruned events cannot be restored. Pass --yes to prune without asking, or --dry-run.');
  }
  return withInbox(flags, async (inbox) => {
    const age = `done for ${formatDuration(olderThanMs)} or longer`;
    if (!yes) {
      const count = await countPrunable(inbox, { olderThanMs, signal });
      const events = `${countOf(count, 'event')} ${age}`;
      if (dryRun) {
        printer.print({ text: `${events} would be pruned; nothing was changed.`, data: { prunable: count } });
        return EXIT.good;
      }
      if (count > 0 && !(await confirm(`Delete the JSON of ${events}?`, signal))) {
        printer.note('Nothing was pruned.');
        return signal.aborted ? interruptedExit() : EXIT.failed;
      }
    }
    const pruned = await inbox.prune({ olderThanMs });
    const kept = pruned === 1 ? 'its id is kept' : 'their ids are kept';
    const text =
      pruned === 0
        ? `No event has been ${age}, so nothing was pruned.`
        : `${countOf(pruned, 'event')} pruned; ${kept}.`;
    printer.print({ text, data: { pruned } });
    return EXIT.good;
  });
}

/** The count is based on this machine's clock. */
async function countPrunable(
  inbox: InboxOperations,
  { olderThanMs, signal }: { readonly olderThanMs: number; readonly signal: AbortSignal },
): Promise<number> {
  const until = Date.now() - olderThanMs;
  let count = 0;
  for await (const { event, receivedAt, updatedAt } of findEvents(inbox, { state: 'done' })) {
    signal.throwIfAborted();
    // Events come in the order in which they were received, and no event is done before it is received.
    if (receivedAt > until) break;
    if (event !== null && updatedAt <= until) count += 1;
  }
  return count;
}
