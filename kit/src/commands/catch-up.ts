import { Command } from 'commander';
import type { InboxOperations, InboxState } from 'stablehooks';
import type { PollReport } from 'stablehooks/catch-up';
import { printRow } from '../io/delivery.js';
import { createForwarder } from '../io/forwarding.js';
import { openInbox } from '../io/inbox.js';
import { EXIT, type ExitCode, interruptedExit, type Paint, type Printer, toPlain } from '../io/output.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  addServiceFlags,
  type CommandContext,
  type Moment,
  parseCount,
  parseDuration,
  parseMoment,
  parseUrl,
  parseWait,
  toDate,
} from '../io/settings.js';

interface CatchUpFlags {
  readonly to: string;
  readonly inbox: string;
  readonly since?: Moment;
  readonly lag: number;
  readonly limit: number;
  readonly maxLimit: number;
  readonly timeout: number;
}

export function catchUpCommand(): Command {
  const command = new Command('catch-up')
    .requiredOption('--to <url>', 'endpoint to forward to')
    .requiredOption(
      '--inbox <file>',
      'SQLite file that remembers what was delivered; created if it does not exist',
    )
    .option(
      '--since <time>',
      'opening date: events created before it are left alone; the first poll stores it (default: now)',
      parseMoment,
    )
    .option('--lag <duration>', 'how late an event may be listed', parseDuration, 300_000)
    .option('--limit <number>', 'how many events to ask for at first', parseCount, 50)
    .option('--max-limit <number>', 'how many events to ask for at most', parseCount, 1_000)
    .option('--timeout <duration>', 'how long the endpoint has to answer', parseWait, 10_000);
  addServiceFlags(addSecretFlags(command));
  addExample(command, ['stablehooks catch-up --to http://localhost:3000/hooks --inbox events.db --since 7d']);
  return addAction(command, catchUp);
}

async function catchUp({
  flags,
  settings,
  printer,
  signal,
}: CommandContext<CatchUpFlags>): Promise<ExitCode> {
  const url = parseUrl(flags.to, '--to');
  const client = await settings.client();
  const { lag: lagMs, limit, maxLimit, since } = flags;
  const inbox = await openInbox(flags.inbox, true);
  let unreachable = 0;
  try {
    const forwarder = await createForwarder(url, {
      settings,
      client,
      inbox,
      timeoutMs: flags.timeout,
      poll: {
        lagMs,
        limit,
        maxLimit: Math.max(limit, maxLimit),
        since: since && toDate(since, Date.now()),
        onGap: () => undefined,
      },
      onAttempt(row) {
        if (row.answer.kind === 'unreachable') unreachable += 1;
        printRow(printer, row);
      },
    });
    const report = await forwarder.pollOnce(signal);
    if (!signal.aborted) forwarder.assertPolled(report);
    printer.print({ text: toReportText(report, printer.paint), data: report });
    if (signal.aborted) {
      printer.note('Interrupted. What was delivered is recorded: run the same command again to continue.');
      return interruptedExit();
    }
    // When the inbox cannot be written, the report is incomplete.
    if (forwarder.inboxError() !== undefined) throw forwarder.inboxError();
    const open = await countOpen(inbox, printer);
    if (open > 0 && unreachable > 0) return EXIT.unreachable;
    return report.proven && open === 0 ? EXIT.good : EXIT.failed;
  } finally {
    inbox.close();
  }
}

/** How many problems are printed. */
const MAX_PROBLEMS_SHOWN = 10;

function toReportText(report: PollReport, { good, bad }: Paint): string {
  const { fetched, recovered, handled, duplicates, failed, requests, durationMs, watermark } = report;
  const redriven = Object.entries(report.redriven ?? {}).filter(([, count]) => count > 0);
  return [
    `listed      ${fetched} events in ${requests} requests, ${durationMs} ms`,
    `found       ${report.new} that this inbox did not know, ${recovered} of them delivered now`,
    `delivered   ${handled} now, ${duplicates} before, ${failed} failed`,
    ...(redriven.length > 0
      ? [`run again   ${redriven.map(([kind, count]) => `${count} ${kind}`).join(', ')}`]
      : []),
    ...(report.deliveredButUnseen > 0
      ? [`note        ${report.deliveredButUnseen} delivered to some endpoint, but not in this inbox`]
      : []),
    report.proven
      ? `${good('proven')}      nothing is missing up to ${watermark}`
      : `${bad('unproven')}    the watermark stays at ${watermark ?? 'an unknown time'}`,
    ...report.gaps.map(
      ({ type, after, before }) => `gap         ${type ?? 'any type'} between ${after} and ${before}`,
    ),
    ...report.problems
      .slice(0, MAX_PROBLEMS_SHOWN)
      .map(({ code, message, id }) => toPlain(`problem     ${code}${id ? ` ${id}` : ''}: ${message}`)),
    ...(report.problems.length > MAX_PROBLEMS_SHOWN
      ? [`            and ${report.problems.length - MAX_PROBLEMS_SHOWN} more problems; --json prints all`]
      : []),
  ].join('\n');
}

/** Counts the events that the endpoint has not accepted yet, whether this run tried them or they wait for a retry. */
async function countOpen(inbox: InboxOperations, printer: Printer): Promise<number> {
  const counts = (await inbox.count()).filter(({ state }) => OPEN.has(state));
  const open = counts.reduce((sum, { count }) => sum + count, 0);
  if (open > 0) {
    const words = counts.flatMap(({ state, count }) => (count > 0 ? [`${count} ${state}`] : []));
    printer.note(
      `Not delivered yet: ${words.join(', ')}. Run the same command again. For dead events, run \`stablehooks inbox requeue\` before it.`,
    );
  }
  return open;
}

const OPEN: ReadonlySet<InboxState> = new Set(['received', 'leased', 'failed', 'dead']);
