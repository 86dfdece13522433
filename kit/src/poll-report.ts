/** A poll's report for people: what was found, what became of it, and what is proved. */
import type { PollReport } from 'stablehooks/catch-up';
import { EXIT } from './exit.js';
import { CommandError, toFailure } from './failure.js';
import type { Paint } from './printer.js';
import { toPlain } from './table.js';

/** Of many problems the first ones tell. */
const SHOWN_PROBLEMS = 10;

/** The report in lines. */
export function toReportText(report: PollReport, { good, bad }: Paint): string {
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
      ? [`note        ${report.deliveredButUnseen} were acknowledged by some endpoint and not in this inbox`]
      : []),
    report.proven
      ? `${good('proven')}      nothing is missing up to ${watermark}`
      : `${bad('unproven')}    the watermark stays at ${watermark ?? 'an unknown time'}`,
    ...report.gaps.map(
      ({ type, after, before }) => `gap         ${type ?? 'any type'} between ${after} and ${before}`,
    ),
    ...report.problems
      .slice(0, SHOWN_PROBLEMS)
      .map(({ code, message, id }) => toPlain(`problem     ${code}${id ? ` ${id}` : ''}: ${message}`)),
    ...(report.problems.length > SHOWN_PROBLEMS
      ? [`            and ${report.problems.length - SHOWN_PROBLEMS} problems more; --json has all`]
      : []),
  ].join('\n');
}

/**
 * A poll that could ask nothing, or record nothing, is a failure of the command and not a finding.
 *
 * @throws whatever the list or the inbox rejected with.
 */
export function assertPolled(report: PollReport, { errors }: { readonly errors: readonly unknown[] }): void {
  if (report.proven || report.fetched > 0) return;
  const error = errors.find((candidate) => candidate !== undefined);
  if (error !== undefined) throw error;
  const busy = report.problems.find(({ code }) => code === 'ERR_POLL_BUSY');
  if (busy !== undefined) throw new CommandError(EXIT.unreachable, busy.message);
}

/** The words of a failure, for a loop that goes on. */
export function toWords(error: unknown): string {
  return toFailure(error).message;
}
