/** `stablehooks events replay`: sends events of the list to an endpoint, oldest first. */
import { Command } from 'commander';
import type { UnknownEvent } from 'stablehooks';
import { isDelivered } from './delivery.js';
import { type DeliveryRow, printRow, summarise } from './delivery-report.js';
import { parseWait } from './duration.js';
import { addSelectionFlags, pickEvents, type SelectionFlags, selectEvents } from './event-selection.js';
import { EXIT, type ExitCode } from './exit.js';
import { usageError } from './failure.js';
import { interruptedExit } from './interruption.js';
import { createService } from './service.js';
import { parseUrl } from './settings.js';
import { createSender } from './signed-delivery.js';
import { toPlain } from './table.js';
import { addExample, addSecretFlags, addServiceFlags, type Task, toAction } from './task.js';

interface ReplayFlags extends SelectionFlags {
  readonly to: string;
  readonly after?: string;
  readonly all?: boolean;
  readonly timeout: number;
}

/** The command. */
export function replayCommand(): Command {
  const command = new Command('replay')
    .description('send events to an endpoint again, signed anew, oldest first')
    .argument('[ids...]', 'ids of the events; or pass --since, or --all')
    .requiredOption('--to <url>', 'endpoint to send to')
    .option('--after <id>', 'go on after this event, where a replay was stopped')
    .option('--all', 'every event that the list answers')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000);
  addServiceFlags(addSecretFlags(addSelectionFlags(command, { limit: 1_000 })));
  addExample(command, [
    'stablehooks events replay evt_01 evt_02 --to http://localhost:3000/hooks',
    'stablehooks events replay --since 2h --to http://localhost:3000/hooks',
  ]);
  return toAction(command, replay);
}

async function replay({ args, flags, settings, printer, signal }: Task<ReplayFlags>): Promise<ExitCode> {
  if (args.length === 0 && !flags.since && !flags.all)
    throw usageError('Name the events to replay, or pass --since TIME, or --all.');
  const url = parseUrl(flags.to, { name: '--to' });
  // Not cut short by Ctrl-C: a delivery that was begun is finished and counted.
  const sender = await createSender(url, { settings, timeoutMs: flags.timeout });
  const client = await createService(settings);
  const found = await selectEvents(flags, { client, printer, signal });
  const events = skipTo(args.length > 0 ? pickEvents(found, args) : found, flags.after);

  const rows: DeliveryRow[] = [];
  const progress = printer.progress('replay', { total: events.length });
  for (const event of events) {
    if (signal.aborted) break;
    const row = { event, answer: await sender.send(event) };
    // What never arrived was not sent: it is the first when the replay goes on.
    if (row.answer.kind === 'unreachable') {
      printRow(printer, row);
      printer.note(`${url} cannot be reached (${row.answer.reason}). ${whereItStands(rows, events.length)}`);
      return EXIT.unreachable;
    }
    rows.push(row);
    printRow(printer, row);
    progress.show(rows.length);
  }
  progress.clear();
  if (rows.length < events.length) {
    printer.note(whereItStands(rows, events.length));
    return interruptedExit();
  }
  printer.note(summarise(rows, { total: events.length }));
  return rows.every(({ answer }) => isDelivered(answer)) ? EXIT.good : EXIT.failed;
}

function skipTo(events: readonly UnknownEvent[], after: string | undefined): readonly UnknownEvent[] {
  if (after === undefined) return events;
  const at = events.findIndex(({ id }) => id === after);
  if (at >= 0) return events.slice(at + 1);
  throw usageError(
    `--after ${toPlain(after)}: this event is not among the ${events.length} that are meant. Check the id.`,
  );
}

function whereItStands(rows: readonly DeliveryRow[], total: number): string {
  const last = rows.at(-1)?.event.id;
  const goOn =
    last === undefined
      ? 'Run the same command again.'
      : `To go on, add --after ${toPlain(last)} to the same command.`;
  return `Stopped: ${summarise(rows, { total })}. ${goOn}`;
}
