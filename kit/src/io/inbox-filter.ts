import { type Command, InvalidArgumentError, Option } from 'commander';
import { type InboxOperations, type InboxState, isEventType } from 'stablehooks';
import { givenOf } from '../given.js';
import { usageError } from './errors.js';
import { type EventFilter, EXCEPTIONS, findEvents } from './event-filter.js';
import { addInboxFlags, type InboxFlags, type OpenInbox, withInbox } from './inbox.js';
import { countOf, EXIT, type ExitCode, type Printer, toPlain } from './output.js';
import { knownTypes, type Moment, parseCount, parseMoment, toDate } from './settings.js';

export interface FilterFlags extends InboxFlags {
  readonly state?: InboxState;
  readonly type?: string;
  readonly since?: Moment;
  readonly until?: Moment;
  readonly error?: string;
  readonly group?: string;
  readonly key?: string;
  readonly id?: string;
  readonly attempts?: number;
  readonly where?: NonNullable<EventFilter['payload']>;
  readonly except?: NonNullable<EventFilter['except']>;
  readonly ignored?: true;
  readonly limit?: number;
}

export function addFilterFlags(command: Command, states: readonly InboxState[]): Command {
  return addInboxFlags(command)
    .addOption(
      new Option('--state <state>', `only events in this state (default: ${states.join(', ')})`).choices(
        states,
      ),
    )
    .option('--type <type>', 'only events of this type')
    .option(
      '--since <time>',
      'only events last changed at or after this time, such as 24h or 2026-01-31',
      parseMoment,
    )
    .option('--until <time>', 'only events last changed before this time', parseMoment)
    .option('--error <text>', 'only events with this code or text in their last error (case-sensitive)')
    .option('--group <error>', 'only events in this group, as printed by `inbox errors`')
    .option('--key <key>', 'only events with this ordering key')
    .option('--id <text>', 'only events with this text in their id')
    .option('--attempts <number>', 'only events with at least this many attempts', parseCount)
    .option(
      '--where <payload.name=value>',
      'only events with this value in the payload; can be repeated',
      parseWhere,
    )
    .option(
      '--except <what>',
      'events to leave out: permanent (a retry cannot help) or expired (the lease of an attempt ran out)',
      parseExcept,
    );
}

function parseWhere(text: string, others: FilterFlags['where'] = []): NonNullable<FilterFlags['where']> {
  const [, path, value] = /^payload\.([^=]+)=(.*)$/s.exec(text) ?? [];
  if (path === undefined || value === undefined)
    throw new InvalidArgumentError('Pass payload.NAME=VALUE, such as payload.transfer_id=trf_1.');
  return [...others, [path, value]];
}

function parseExcept(text: string, others: FilterFlags['except'] = []): NonNullable<FilterFlags['except']> {
  const names = text.split(',').map((each) => EXCEPTIONS.find((name) => name === each.trim()));
  if (names.includes(undefined)) throw new InvalidArgumentError(`Pass ${EXCEPTIONS.join(' or ')}.`);
  return [...others, ...names.filter((each) => each !== undefined)];
}

export const IGNORED_FLAG = ['--ignored', 'only events marked done because they had no handler'] as const;

export interface SelectionFlags extends FilterFlags {
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

export const FORCE_RISK =
  'The handler may still be running, so the effect may happen twice. Pass --force only if the process that ran the handler is gone.';

export function addSelection(command: Command, states: readonly InboxState[]): Command {
  return addFilterFlags(
    command.argument('[ids...]', 'ids of the events, unless you select events with flags'),
    states,
  )
    .option('--limit <number>', 'maximum number of events (default: all)', parseCount)
    .option('--dry-run', 'only print how many events match; change nothing')
    .option('--force', 'include events that may still be running; their effects may happen twice');
}

/** Also prints a note if this release does not know the type. */
export function toFilter(flags: FilterFlags, printer: Printer): EventFilter {
  const { state, type, error, group, key, attempts, where: payload, except, ignored } = flags;
  const id = flags.id?.trim();
  const now = Date.now();
  const updatedSince = flags.since && toDate(flags.since, now).getTime();
  const updatedUntil = flags.until && toDate(flags.until, now).getTime();
  if (updatedSince !== undefined && updatedUntil !== undefined && updatedSince >= updatedUntil)
    throw usageError('--since must be earlier than --until. Swap the two values.');
  if (updatedSince !== undefined && updatedSince > now)
    throw usageError('--since is in the future, so no event can match. Check the date.');
  for (const [name, text] of Object.entries({ type, error, group, key, id }))
    if (text === '') throw usageError(`--${name} is empty. If it comes from a variable, check its value.`);
  if (type !== undefined && !isEventType(type))
    printer.note(`This release does not know the event type ${toPlain(type)}. ${knownTypes()}`);
  return givenOf({
    ...{ state, type, error, group, key, id, attempts, payload, except, ignored, updatedSince, updatedUntil },
  });
}

export function noteUnread(printer: Pick<Printer, 'note'>, unread: number): void {
  if (unread > 0)
    printer.note(
      `Not searched: ${countOf(unread, 'event')} without readable text (pruned, imported or damaged).`,
    );
}

export interface Selected {
  /** At most `--limit` ids. In each state, the oldest events come first. */
  readonly ids: readonly string[];
  readonly filter: EventFilter;
}

const BATCH = 500;

interface Action {
  readonly args: readonly string[];
  readonly flags: SelectionFlags;
  readonly printer: Printer;
  readonly states: readonly InboxState[];
  /** The participle in messages, such as `requeued`. */
  readonly done: string;
  /** Returns why the command would skip the event. Only a dry run calls this. */
  readonly skips?: (inbox: OpenInbox, id: string) => Promise<string | undefined>;
}

/** Does not call `change` in a dry run or if no event matches. */
export async function changeSelected(
  action: Action,
  change: (inbox: OpenInbox, selected: Selected) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { args, flags, printer } = action;
  const filter = toFilter(flags, printer);
  // `--ignored` can be used with and without ids.
  const isFiltered = Object.keys(filter).some((name) => args.length === 0 || name !== 'ignored');
  if (args.length > 0 && isFiltered) throw usageError('Select events by id or with flags, not both.');
  if (args.length === 0 && !isFiltered)
    throw usageError('Pass the ids of the events, or select events with flags such as --state dead.');
  return withInbox(flags, async (inbox) => {
    const found = isFiltered
      ? await findMatching(inbox, filter)
      : await findNamed(inbox, [...new Set(args)], action.states);
    return changeFound(inbox, found, filter);
  });

  async function findMatching(inbox: OpenInbox, filter: EventFilter): Promise<readonly string[]> {
    const ids: string[] = [];
    let unread = 0;
    const counts: Partial<Record<InboxState, number>> = {};
    for (const state of action.states) {
      // By default, leased events are not selected, because most of them are running at this moment.
      if ((state === 'leased' && !flags.force && !flags.state) || (filter.state ?? state) !== state) continue;
      const before = ids.length;
      const found = findEvents(inbox, { ...filter, state }, { onUnread: () => unread++ });
      for await (const { id } of found) ids.push(id);
      counts[state] = ids.length - before;
    }
    const which = ids.length > 0 ? `: ${describeStates(counts)}` : '';
    printer.note(`${countOf(ids.length, 'event')} ${ids.length === 1 ? 'matches' : 'match'}${which}.`);
    noteUnread(printer, unread);
    return ids;
  }

  async function changeFound(
    inbox: OpenInbox,
    found: readonly string[],
    selected: EventFilter,
  ): Promise<ExitCode> {
    const { done } = action;
    const ids = found.slice(0, flags.limit);
    if (ids.length > 0 && flags.dryRun !== true) return change(inbox, { ids, filter: selected });
    if (ids.length === 0) {
      const pruned = selected.ignored ? ' Ignored events whose text is pruned cannot run.' : '';
      const text = `No event matches, so nothing was ${done}.${pruned}`;
      printer.print({ text, data: { selected: 0, [done]: 0 } });
      return EXIT.failed;
    }
    const skipped = await skippedOf(inbox, ids);
    const count = ids.length - skipped.length;
    printer.print({
      text: `${countOf(count, 'event')} would be ${done}. Nothing was changed.`,
      data: { selected: count, [done]: 0 },
    });
    if (skipped.length > 0)
      printer.note(`Would be skipped: ${countOf(skipped.length, 'event')}. ${skipped[0]}`);
    return count === 0 ? EXIT.failed : EXIT.good;
  }

  async function skippedOf(inbox: OpenInbox, ids: readonly string[]): Promise<readonly string[]> {
    const skipped: string[] = [];
    for (const id of ids) {
      const record = await inbox.find(id);
      const isRunning = record?.state === 'leased' && (record.dueAt ?? 0) > Date.now() && !flags.force;
      const why = isRunning ? `${toPlain(id)}: ${FORCE_RISK}` : await action.skips?.(inbox, id);
      if (why !== undefined) skipped.push(why);
    }
    return skipped;
  }
}

/** Returns a text such as `2 done, 1 dead`. */
export function describeStates(counts: Partial<Record<InboxState, number>>): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count.toLocaleString('en-US')} ${state}`)
    .join(', ');
}

/** The name to record unless a flag provides one. */
export function userName(): string {
  return process.env['USER'] || 'stablehooks';
}

async function findNamed(
  inbox: InboxOperations,
  ids: readonly string[],
  states: readonly InboxState[],
): Promise<readonly string[]> {
  for (const id of ids) {
    const record = await inbox.find(id);
    if (record === undefined)
      throw usageError(`${toPlain(id)} is not in this inbox. See \`stablehooks inbox list\`.`);
    if (!states.includes(record.state)) {
      throw usageError(
        `${toPlain(id)} is ${record.state}. This command only changes events in one of these states: ${states.join(', ')}.`,
      );
    }
  }
  return ids;
}

/** Resolves to the sum of the results. */
export async function inBatches(
  ids: readonly string[],
  change: (ids: readonly string[]) => Promise<number>,
): Promise<number> {
  let sum = 0;
  for (let at = 0; at < ids.length; at += BATCH) sum += await change(ids.slice(at, at + BATCH));
  return sum;
}
