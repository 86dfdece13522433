/** `stablehooks inbox`: what an inbox remembers, and what to do about what failed. */
import { Command, Option } from 'commander';
import { INBOX_STATES, type InboxOperations, type InboxRecord, type InboxState } from 'stablehooks';
import { formatAge, parseDuration } from './duration.js';
import { EXIT, type ExitCode } from './exit.js';
import { usageError } from './failure.js';
import { parseCount } from './flag-value.js';
import { INBOX_PLACE, redriveCommand } from './inbox-redrive.js';
import { openInbox } from './open-inbox.js';
import type { Printer } from './printer.js';
import { toPlain, toTable } from './table.js';
import { addExample, toAction } from './task.js';

/** The command. */
export function inboxCommand(): Command {
  return new Command('inbox')
    .addCommand(statsCommand())
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(redriveCommand())
    .addCommand(pruneCommand());
}

function statsCommand(): Command {
  const command = new Command('stats')
    .description('count the events of each state')
    .argument('<inbox>', INBOX_PLACE);
  addExample(command, ['stablehooks inbox stats events.db']);
  return toAction<object>(command, ({ args, printer }) =>
    withInbox(args, async (inbox) => {
      const counts = await inbox.count();
      const { bad } = printer.paint;
      const rows = counts.map(({ state, count, oldest }) => [
        state,
        state === 'dead' && count > 0 ? { text: String(count), paint: bad } : String(count),
        oldest === null ? '' : formatAge(Date.now() - oldest),
      ]);
      printer.print({ text: toTable(['state', 'events', 'oldest'], { rows }), data: counts });
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
  return toAction<{ readonly state?: InboxState; readonly limit: number }>(
    command,
    ({ args, flags, printer }) =>
      withInbox(args, async (inbox) => {
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
  printer.print({ text: records.length === 0 ? 'No events.' : toTable(columns, { rows }), data: null });
}

function showCommand(): Command {
  const command = new Command('show')
    .description('print what the inbox knows of one event')
    .argument('<inbox>', INBOX_PLACE)
    .argument('<id>', 'id of the event');
  addExample(command, ['stablehooks inbox show events.db evt_01']);
  return toAction<object>(command, ({ args, printer }) =>
    withInbox(args, async (inbox) => {
      const id = args[1] ?? '';
      const record = await inbox.find(id);
      if (record === undefined) throw usageError(`The inbox has no event ${toPlain(id)}. Check the id.`);
      printer.print({ text: JSON.stringify(withTimes(record), null, 2), data: record });
      return EXIT.good;
    }),
  );
}

/** Times as people read them. */
function withTimes(record: InboxRecord): object {
  const toTime = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  const { receivedAt, updatedAt, dueAt } = record;
  return { ...record, receivedAt: toTime(receivedAt), updatedAt: toTime(updatedAt), dueAt: toTime(dueAt) };
}

function pruneCommand(): Command {
  const command = new Command('prune')
    .description(
      'drop the JSON of events that are long done; their ids stay, so that replays stay duplicates',
    )
    .argument('<inbox>', INBOX_PLACE)
    .requiredOption('--older-than <duration>', 'done for so long', parseDuration);
  addExample(command, ['stablehooks inbox prune events.db --older-than 30d']);
  return toAction<{ readonly olderThan: number }>(command, ({ args, flags, printer }) =>
    withInbox(args, async (inbox) => {
      const pruned = await inbox.prune({ olderThanMs: flags.olderThan });
      printer.print({ text: `${pruned} events pruned; their ids are kept.`, data: { pruned } });
      return EXIT.good;
    }),
  );
}

async function withInbox(
  [place = '']: readonly string[],
  work: (inbox: InboxOperations) => Promise<ExitCode>,
): Promise<ExitCode> {
  const inbox = await openInbox(place, { create: false });
  try {
    return await work(inbox);
  } finally {
    await inbox.close();
  }
}
