/** `stablehooks events`: the list as a table, one event whole, and the replay of some to an endpoint. */
import { Command } from 'commander';
import type { UnknownEvent } from 'stablehooks';
import { formatAge } from './duration.js';
import { addSelectionFlags, pickEvents, type SelectionFlags, selectEvents } from './event-selection.js';
import { replayCommand } from './events-replay.js';
import { EXIT, type ExitCode } from './exit.js';
import { usageError } from './failure.js';
import type { Printer } from './printer.js';
import { createService } from './service.js';
import { toTable } from './table.js';
import { addExample, addServiceFlags, type Task, toAction } from './task.js';

interface ListFlags extends SelectionFlags {
  readonly undelivered?: boolean;
}

/** The command. */
export function eventsCommand(): Command {
  return new Command('events')
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(replayCommand());
}

function listCommand(): Command {
  const command = new Command('list')
    .description('list events, newest first')
    .option('--undelivered', 'only events that no endpoint has taken');
  addServiceFlags(addSelectionFlags(command, { limit: 50 }));
  addExample(command, ['stablehooks events list --type transfer.failed --since 24h']);
  return toAction(command, list);
}

async function list({ flags, settings, printer, signal }: Task<ListFlags>): Promise<ExitCode> {
  const client = await createService(settings);
  const found = await selectEvents(flags, { client, printer, signal });
  const events = found.filter(({ delivered }) => !flags.undelivered || delivered !== true).toReversed();
  printEvents(printer, events);
  return EXIT.good;
}

function printEvents(printer: Printer, events: readonly UnknownEvent[]): void {
  if (printer.json) {
    for (const event of events) printer.print({ text: '', data: event });
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
    text: events.length === 0 ? 'No events.' : toTable(['type', 'id', 'age', 'delivered'], { rows }),
    data: null,
  });
}

function showCommand(): Command {
  const command = new Command('show')
    .description('print one event whole')
    .argument('<id>', 'id of the event');
  addServiceFlags(addSelectionFlags(command, { limit: 1_000 }));
  addExample(command, ['stablehooks events show evt_01 --json | jq .payload']);
  return toAction(command, show);
}

async function show({ args, flags, settings, printer, signal }: Task<SelectionFlags>): Promise<ExitCode> {
  const client = await createService(settings);
  const [event] = pickEvents(await selectEvents(flags, { client, printer, signal }), args);
  if (event === undefined) throw usageError('Name the event to show.');
  printer.print({ text: JSON.stringify(event, null, 2), data: event });
  return EXIT.good;
}
