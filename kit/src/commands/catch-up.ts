import { existsSync, readFileSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Command } from 'commander';
import type { InboxOperations, InboxState } from 'stablehooks';
import { describeGap, type PollReport } from 'stablehooks/catch-up';
import { readCoverage, renderCoverage } from '../coverage-picture.js';
import { printRow } from '../io/delivery.js';
import { usageError } from '../io/errors.js';
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
  readonly disorder: number;
  readonly limit: number;
  readonly maxLimit: number;
  readonly timeout: number;
  readonly report?: string;
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
    .option('--lag <duration>', 'how late an event may be listed (lagMs)', parseDuration, 300_000)
    .option(
      '--disorder <duration>',
      'how far the list may be out of order (disorderMs)',
      parseDuration,
      1_000,
    )
    .option('--limit <number>', 'how many events to ask for at first', parseCount, 50)
    .option('--max-limit <number>', 'how many events to ask for at most (maxLimit)', parseCount, 1_000)
    .option('--timeout <duration>', 'how long the endpoint has to answer', parseWait, 10_000)
    .option('--report <file>', 'SVG file to write a picture of the coverage to, after the poll');
  addServiceFlags(addSecretFlags(command));
  addExample(command, [
    'stablehooks catch-up --to http://localhost:3000/hooks --inbox events.db --since 7d --report coverage.svg',
  ]);
  return addAction(command, catchUp);
}

async function catchUp({
  flags,
  settings,
  printer,
  signal,
}: CommandContext<CatchUpFlags>): Promise<ExitCode> {
  const url = parseUrl(flags.to, '--to');
  if (flags.report !== undefined) assertPicture(flags.report);
  const client = await settings.client();
  const { lag: lagMs, disorder: disorderMs, limit, maxLimit, since } = flags;
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
        disorderMs,
        limit,
        maxLimit: Math.max(limit, maxLimit),
        since: since && toDate(since, Date.now()),
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
    if (flags.report !== undefined) {
      const coverage = await readCoverage(inbox, { now: Date.now(), late: report.ids.late });
      await writeFile(flags.report, renderCoverage(coverage));
      printer.note(`The picture of the coverage is in ${flags.report}.`);
    }
    const undelivered = await countUndelivered(inbox, printer);
    if (undelivered > 0 && unreachable > 0) return EXIT.unreachable;
    const isClockBehind = report.problems.some(({ code }) => code === 'ERR_CLOCK_BEHIND');
    const isWhole = report.proven && report.gaps.length === 0 && !isClockBehind;
    return isWhole && undelivered === 0 ? EXIT.good : EXIT.failed;
  } finally {
    inbox.close();
  }
}

/** @throws {CommandError} exit 2 when the file is not a picture of before, or its folder does not exist. */
function assertPicture(path: string): void {
  if (!existsSync(dirname(path))) throw usageError(`--report ${path}: there is no such folder.`);
  if (!existsSync(path)) return;
  const isPicture = statSync(path).isFile() && readFileSync(path, 'utf8').startsWith('<svg');
  if (!isPicture) throw usageError(`--report ${path}: this file exists and is no SVG. Choose another one.`);
}

function toReportText(report: PollReport, { good, bad }: Paint): string {
  const { fetched, recovered, handled, duplicates, failed, requests, durationMs } = report;
  const redriven = Object.entries(report.redriven ?? {}).filter(([, count]) => count > 0);
  return [
    `listed      ${fetched} events in ${requests} requests, ${durationMs} ms`,
    ...(report.skipped > 0
      ? [`skipped     ${report.skipped} created before the opening date; --since takes older ones`]
      : []),
    `found       ${report.new} that this inbox did not know, ${recovered} of them delivered now`,
    `delivered   ${handled} now, ${duplicates} before, ${failed} failed`,
    ...(redriven.length > 0
      ? [`run again   ${redriven.map(([kind, count]) => `${count} ${kind}`).join(', ')}`]
      : []),
    ...(report.deliveredButUnseen > 0
      ? [`note        ${report.deliveredButUnseen} delivered to some endpoint, but not in this inbox`]
      : []),
    ...(report.late > 0
      ? [`late        ${report.late} listed only after the watermark had passed them`]
      : []),
    report.proven
      ? `${good('proven')}      ${report.diagnosis}`
      : `${bad('unproven')}    ${report.diagnosis}`,
    ...toShortList('gaps', [
      ...report.gapsClosed.map((gap) => `${good('gap closed')}  ${describeGap(gap)}`),
      ...report.gapsOpened.map((gap) => `${bad('gap opened')}  ${describeGap(gap)}`),
      ...report.gaps
        .filter(({ openedAt }) => !report.gapsOpened.some((gap) => gap.openedAt === openedAt))
        .map((gap) => `${bad('gap open')}    ${describeGap(gap)}`),
    ]),
    ...toShortList(
      'problems',
      report.problems.map(({ code, message, id }) =>
        toPlain(`problem     ${code}${id ? ` ${id}` : ''}: ${message}`),
      ),
    ),
  ].join('\n');
}

/** How many gaps and how many problems are printed. */
const MAX_SHOWN = 10;

function toShortList(what: string, lines: readonly string[]): readonly string[] {
  const more = lines.length - MAX_SHOWN;
  return more > 0
    ? [...lines.slice(0, MAX_SHOWN), `            and ${more} more ${what}; --json prints all`]
    : lines;
}

/** Counts the events that the endpoint has not accepted yet, whether this run tried them or they wait for a retry. */
async function countUndelivered(inbox: InboxOperations, printer: Printer): Promise<number> {
  const counts = (await inbox.count()).filter(({ state }) => UNDELIVERED.has(state));
  const undelivered = counts.reduce((sum, { count }) => sum + count, 0);
  if (undelivered > 0) {
    const words = counts.flatMap(({ state, count }) => (count > 0 ? [`${count} ${state}`] : []));
    printer.note(
      `Not delivered yet: ${words.join(', ')}. Run the same command again. For dead events, run \`stablehooks inbox requeue\` before it.`,
    );
  }
  return undelivered;
}

const UNDELIVERED: ReadonlySet<InboxState> = new Set(['received', 'leased', 'failed', 'dead']);
