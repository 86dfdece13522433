/** `stablehooks catch-up`: one poll, forwarded to an endpoint in any language, with the report and the proof. */
import { Command } from 'commander';
import type { InboxOperations, InboxState } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { printRow } from './delivery-report.js';
import { type Moment, parseDuration, parseMoment, parseWait, toDate } from './duration.js';
import { EXIT, type ExitCode } from './exit.js';
import { parseCount } from './flag-value.js';
import { createForwarder } from './forwarding.js';
import { interruptedExit } from './interruption.js';
import { openInbox } from './open-inbox.js';
import { assertPolled, toReportText } from './poll-report.js';
import type { Printer } from './printer.js';
import { createService } from './service.js';
import { parseUrl } from './settings.js';
import { addExample, addSecretFlags, addServiceFlags, type Task, toAction } from './task.js';
import { witness } from './witness.js';

interface CatchUpFlags {
  readonly to: string;
  readonly inbox: string;
  readonly since?: Moment;
  readonly lag: number;
  readonly limit: number;
  readonly maxLimit: number;
  readonly timeout: number;
}

/** The command. */
export function catchUpCommand(): Command {
  const command = new Command('catch-up')
    .requiredOption('--to <url>', 'endpoint to forward to')
    .requiredOption(
      '--inbox <file>',
      'SQLite file that remembers what was delivered; made if it is not there',
    )
    .option(
      '--since <time>',
      'from when on nothing may be missed; the first poll reads it (default: now)',
      parseMoment,
    )
    .option('--lag <duration>', 'how late an event may be listed', parseDuration, 300_000)
    .option('--limit <number>', 'how many events to ask for at first', parseCount, 50)
    .option('--max-limit <number>', 'how many events to ask for at most', parseCount, 1_000)
    .option('--timeout <duration>', 'how long the endpoint has to answer', parseWait, 10_000);
  addServiceFlags(addSecretFlags(command));
  addExample(command, ['stablehooks catch-up --to http://localhost:3000/hooks --inbox events.db --since 7d']);
  return toAction(command, catchUp);
}

async function catchUp({ flags, settings, printer, signal }: Task<CatchUpFlags>): Promise<ExitCode> {
  const url = parseUrl(flags.to, { name: '--to' });
  const service = await createService(settings);
  const { target: events, lastError } = witness(service.events);
  const file = await openInbox(flags.inbox, { create: true });
  const inbox = witness(file);
  let unreachable = 0;
  try {
    const receiver = await createForwarder(url, {
      settings,
      inbox: inbox.target,
      timeoutMs: flags.timeout,
      onAttempt(row) {
        if (row.answer.kind === 'unreachable') unreachable += 1;
        printRow(printer, row);
      },
    });
    const { lag: lagMs, limit, maxLimit, since } = flags;
    const poller = createPoller({
      client: { events },
      receiver,
      ...{ lagMs, limit, maxLimit: Math.max(limit, maxLimit) },
      ...(since && { since: toDate(since, { now: Date.now() }) }),
      onGap: () => undefined,
    });
    const report = await poller.pollOnce({ signal });
    if (!signal.aborted) assertPolled(report, { errors: [inbox.lastError(), lastError()] });
    printer.print({ text: toReportText(report, printer.paint), data: report });
    if (signal.aborted) {
      printer.note('Interrupted. What was delivered is recorded: run the same command again to go on.');
      return interruptedExit();
    }
    // The report says what was found; a disk that takes no more is why it is not the whole of it.
    if (inbox.lastError() !== undefined) throw inbox.lastError();
    const open = await countOpen(file, printer);
    if (open > 0 && unreachable > 0) return EXIT.unreachable;
    return report.proven && open === 0 ? EXIT.good : EXIT.failed;
  } finally {
    file.close();
  }
}

/** What the endpoint has not taken yet is no success, whether it was tried in this run or waits for its time. */
async function countOpen(inbox: InboxOperations, printer: Printer): Promise<number> {
  const counts = (await inbox.count()).filter(({ state }) => OPEN.has(state));
  const open = counts.reduce((sum, { count }) => sum + count, 0);
  if (open > 0) {
    const words = counts.flatMap(({ state, count }) => (count > 0 ? [`${count} ${state}`] : []));
    printer.note(
      `Not delivered yet: ${words.join(', ')}. Run the same command again; dead ones: \`stablehooks inbox redrive\`.`,
    );
  }
  return open;
}

const OPEN: ReadonlySet<InboxState> = new Set(['received', 'leased', 'failed', 'dead']);
