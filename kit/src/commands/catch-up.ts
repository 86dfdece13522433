import { Command } from 'commander';
import { EVENT_TYPES, type EventType, isEventType } from 'stablehooks';
import { describeGap, type Gap, type PollReport, readPollState } from 'stablehooks/catch-up';
import { isQueued } from '../io/answer.js';
import { printRow } from '../io/delivery-rows.js';
import { createForwarder, type ForwardingAttempt } from '../io/forwarding.js';
import { addInboxFlags, INBOX_PLACE, type InboxFlags, openOwnInbox, toOwnNamespace } from '../io/inbox.js';
import {
  countAlike,
  countOf,
  EXIT,
  type ExitCode,
  interruptedExit,
  type Paint,
  toPlain,
} from '../io/output.js';
import { addPollFlags, type PollFlags, toPollOptions } from '../io/poll-flags.js';
import {
  addAction,
  addSecretFlags,
  addServiceFlags,
  type CommandContext,
  collectTypes,
  type Moment,
  parseEndpoint,
  parseMoment,
  parseWait,
  toDate,
} from '../io/settings.js';
import { describeTypes, listUndelivered, type Undelivered } from '../io/undelivered.js';
import { toShellWord } from '../shell-word.js';

interface CatchUpFlags extends PollFlags, InboxFlags {
  readonly to: string;
  readonly type?: readonly EventType[];
  readonly since?: Moment;
  readonly timeout: number;
}

export function catchUpCommand(): Command {
  const command = addInboxFlags(
    new Command('catch-up').requiredOption('--to <url>', 'endpoint to forward events to', parseEndpoint),
    {
      about: `${INBOX_PLACE}; can be your app's inbox; a missing SQLite file is created`,
      // The user must type the flag, because the command creates tables in this inbox.
      required: true,
    },
  )
    .option('--type <type>', 'forward only events of this type; can be repeated (default: all)', collectTypes)
    .option(
      '--since <time>',
      'ignore events created before this start date, which the first poll stores (default: now)',
      parseMoment,
    )
    .option('--timeout <duration>', 'how long to wait for a response', parseWait, 10_000);
  addServiceFlags(addSecretFlags(addPollFlags(command)));
  return addAction(command, catchUp, [
    'stablehooks catch-up --to http://localhost:3000/hooks --inbox catch-up.db --since 7d',
  ]);
}

async function catchUp({ flags, settings, printer, signal }: CommandContext<CatchUpFlags>) {
  const pollOptions = toPollOptions(flags);
  const client = await settings.client();
  const inbox = await openOwnInbox(flags);
  const rows: ForwardingAttempt[] = [];
  try {
    const forwarder = await createForwarder(flags.to, {
      settings,
      client,
      inbox,
      timeoutMs: flags.timeout,
      types: flags.type,
      stopsAtWrongTarget: true,
      poll: { ...pollOptions, since: flags.since && toDate(flags.since, Date.now()) },
      onAttempt(row) {
        rows.push(row);
        printRow(printer, row, () => isDone(row));
      },
    });
    const { report, serviceError, inboxError } = await forwarder.poll(signal);
    if (serviceError !== undefined && inboxError === undefined) throw serviceError;
    const lists =
      inboxError === undefined ? await listUndelivered(inbox, flags.type) : { undelivered: [], leftOut: [] };
    const { since } = inboxError === undefined ? await readPollState(inbox) : { since: null };
    const result: CatchUpResult = { report, rows, ...lists, since, flags };
    printer.print({ text: toText(result, printer.paint), data: toData(result) });
    if (inboxError !== undefined) throw inboxError;
    if (signal.aborted) {
      printer.note(
        'Interrupted. Delivered events are already recorded. To continue, run the same command again.',
      );
      return interruptedExit();
    }
    return toExitCode(result);
  } finally {
    await inbox.close();
  }
}

interface CatchUpResult {
  readonly report: PollReport;
  readonly rows: readonly ForwardingAttempt[];
  readonly undelivered: readonly Undelivered[];
  /** The exit code does not cover these events, because `--type` excludes them. */
  readonly leftOut: readonly Undelivered[];
  /** The start date, in epoch ms. */
  readonly since: number | null;
  readonly flags: InboxFlags;
}

function toExitCode(result: CatchUpResult): ExitCode {
  const { report, rows, undelivered } = result;
  if (isJustOpened(result)) return EXIT.failed;
  if (undelivered.length > 0 && rows.some(({ answer }) => answer.kind === 'unreachable'))
    return EXIT.unreachable;
  const isWhole =
    (report.proven || report.unconfirmed) && report.gaps.every(isUnconfirmed) && !report.doubtful;
  return isWhole && undelivered.length === 0 ? EXIT.good : EXIT.failed;
}

const isUnconfirmed = ({ state }: Gap) => state === 'unconfirmed';

/** Until the watermark moves past the start date, nothing is proven. */
function isJustOpened({ report, since }: CatchUpResult): boolean {
  return report.proven && since !== null && report.watermark === new Date(since).toISOString();
}

function isDone({ nextInMs }: ForwardingAttempt): boolean {
  return nextInMs === null;
}

function toData(result: CatchUpResult): object {
  const { report, undelivered, leftOut } = result;
  return {
    ...report,
    undelivered: Object.fromEntries(countAlike(undelivered.map(({ state }) => state))),
    withoutHandler: undelivered.filter(({ ignored }) => ignored).length,
    leftOut: Object.fromEntries(countAlike(leftOut.map(({ type }) => type))),
  };
}

function toText(result: CatchUpResult, { good, bad, doubtful }: Paint): string {
  const { report, rows, undelivered, leftOut } = result;
  const { fetched, handled, duplicates, failed, requests, durationMs } = report;
  const unknown = undelivered.filter(({ type }) => !isEventType(type)).length;
  const queued = rows.filter((row) => isDone(row) && isQueued(row.answer)).length;
  const ignored = undelivered.filter((event) => event.ignored);
  return [
    `listed      ${countOf(fetched, 'event')} in ${countOf(requests, 'request')}, ${durationMs} ms`,
    report.skipped > 0 &&
      `skipped     ${report.skipped} created before the start date; pass an earlier --since to include them`,
    `found       ${report.new} not yet in this inbox`,
    `delivered   ${handled} now, ${duplicates} before, ${failed} failed`,
    queued > 0 && `queued      ${queued} stored by the endpoint, which runs them later`,
    ignored.length > 0 &&
      `${doubtful('no handler')}  The endpoint ran no handler for ${describeTypes(ignored)}. Add a handler for future events. Process these events by hand, because the endpoint now responds with \`duplicate\` to them. They count as undelivered until you exclude their type with --type or use a new inbox with a later --since.`,
    leftOut.length > 0 &&
      `left out    ${describeTypes(leftOut)} (--type). They stay in the inbox until you run this command with their type, and do not affect the exit code.`,
    unknown > 0 &&
      `${bad('parked')}      Not forwarded: ${countOf(unknown, 'event')} of types that this release does not know. Upgrade stablehooks-kit, or use --type to name the types to forward.`,
    report.deliveredButUnseen > 0 &&
      `note        ${report.deliveredButUnseen} listed as delivered, but not in this inbox`,
    report.late > 0 && `late        ${report.late} listed late, after the watermark had passed them`,
    toVerdict(result, { good, bad, doubtful }),
    ...toShortList('gaps', [
      ...report.gapsClosed.map((gap) => `${good('gap closed')}  ${describeGap(gap)}`),
      ...report.gapsOpened.map((gap) => `${bad('gap opened')}  ${describeOpenGap(gap, report)}`),
      ...report.gaps
        .filter(({ openedAt }) => !report.gapsOpened.some((gap) => gap.openedAt === openedAt))
        .map((gap) =>
          isUnconfirmed(gap)
            ? `unconfirmed  ${describeGap(gap)}`
            : `${bad('gap open')}    ${describeOpenGap(gap, report)}`,
        ),
    ]),
    ...toShortList('problems', toProblems(result)),
    toUndelivered(result, bad),
  ]
    .filter((line) => typeof line === 'string')
    .join('\n');
}

function toVerdict(result: CatchUpResult, { good, bad, doubtful }: Omit<Paint, 'faint'>): string {
  const { report } = result;
  const { diagnosis } = report;
  if (report.unconfirmed) return `${doubtful('unconfirmed')} ${diagnosis}`;
  if (!report.proven) return `${bad('unproven')}    ${diagnosis}`;
  if (isJustOpened(result)) {
    return `${doubtful('not shown')}   Nothing is proven yet: the start date is ${report.watermark}, and a new event can take up to --lag to appear in the list. Run the same command again once --lag has passed, or pass an earlier --since.`;
  }
  // A green line next to undelivered events would look like success.
  return toExitCode(result) === EXIT.good
    ? `${good('proven')}      ${diagnosis}`
    : `recorded    ${diagnosis}`;
}

/** Gives no advice if the poll proved nothing, because the diagnosis may give different advice. */
function describeOpenGap(gap: Gap, { proven }: PollReport): string {
  if (proven) return describeGap(gap);
  const { types, from, until } = gap;
  const which = types.length === EVENT_TYPES.length ? 'Events' : `Events of ${types.join(', ')}`;
  return `${which} created after ${from} and up to ${until} may be missing.`;
}

/** Leaves out failed attempts, because they already have their own rows. */
function toProblems({ report, rows }: CatchUpResult): readonly string[] {
  const failed = new Set(rows.filter((row) => !isDone(row)).map(({ event }) => event.id));
  return report.problems
    .filter(({ code, id }) => code !== 'ERR_HANDLER_FAILED' || id === undefined || !failed.has(id))
    .map(({ code, message, id }) => toPlain(`problem     ${code}${id ? ` ${id}` : ''}: ${message}`));
}

function toUndelivered(
  { undelivered, flags: { inbox, namespace } }: CatchUpResult,
  bad: Paint['bad'],
): string | false {
  // The other events have their own lines, and rerunning the command would not deliver them.
  const waiting = undelivered.filter(({ type, ignored }) => isEventType(type) && !ignored);
  if (waiting.length === 0) return false;
  const counts = countAlike(waiting.map(({ state }) => state));
  const words = counts.map(([state, count]) => `${count} ${state}`).join(', ');
  // Only the endpoint dead-letters forwarded events.
  const isDead = waiting.some(({ state }) => state === 'dead');
  const dead = isDead
    ? ` To make the dead events due again, run \`stablehooks inbox requeue --inbox ${toShellWord(inbox)} --namespace ${toOwnNamespace(namespace)} --state dead --wait 0\`.`
    : '';
  return `${bad('waiting')}     Not delivered yet: ${words}. Run \`stablehooks doctor\` to find out what is wrong with the endpoint, then run the same command again.${dead}`;
}

const MAX_SHOWN = 10;

function toShortList(what: string, lines: readonly string[]): readonly string[] {
  const more = lines.length - MAX_SHOWN;
  return more > 0
    ? [...lines.slice(0, MAX_SHOWN), `            and ${more} more ${what}; --json prints all`]
    : lines;
}
