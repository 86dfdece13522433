import { Command } from 'commander';
import { acknowledgeGap, describeGap, type Gap, listGaps, readPollState } from 'stablehooks/catch-up';
import { health } from 'stablehooks/health';
import { unreachableError, usageError } from '../io/errors.js';
import { addInboxAction, addInboxFlags, type InboxFlags, type OpenInbox, toInboxWords } from '../io/inbox.js';
import { EXIT, formatAge, type Text, toPlain } from '../io/output.js';
import { addProvenWithin, noteOldProof } from '../io/poll-flags.js';
import { type CommandContext, type Moment, parseMoment, parseText, toDate } from '../io/settings.js';

export function gapsCommand(): Command {
  return new Command('gaps').addCommand(listCommand()).addCommand(acknowledgeCommand());
}

interface ListFlags extends InboxFlags {
  readonly all?: boolean;
  readonly provenWithin: number;
}

function listCommand(): Command {
  const command = addInboxFlags(
    new Command('list').description(
      'list the open gaps (time spans in which events may be missing from the inbox)',
    ),
  ).option('--all', 'include acknowledged gaps, and show who acknowledged them, when and why');
  addProvenWithin(command);
  return addInboxAction(command, list, ['stablehooks gaps list --inbox events.db']);
}

async function list(inbox: OpenInbox, { flags, printer }: CommandContext<ListFlags>) {
  const gaps = await listGaps(inbox);
  const open = gaps.filter(isOpen);
  const shown = flags.all ? gaps : gaps.filter(({ state }) => state !== 'acknowledged');
  const { isOwn } = inbox;
  for (const gap of shown) printer.print({ text: toText(gap, flags), data: gap });

  const { since, watermark: stored } = await readPollState(inbox);
  const watermark = stored === null ? null : new Date(stored).toISOString();
  const { checks } = await health(inbox, { provenMs: flags.provenWithin });
  const coverage = checks.find(({ name }) => name === 'coverage');
  const isStale = coverage?.healthy === false;
  const acknowledged = gaps.filter(({ state }) => state === 'acknowledged').length;
  const data = { watermark, stale: isStale, open: open.length, acknowledged };
  // Before the first poll, no gap is known and nothing is proven.
  if (watermark === null) {
    printer.print({ text: `${NO_POLL} ${isOwn ? POLL_HERE : POLL_IN_APP}`, data });
    return EXIT.failed;
  }
  const hidden = gaps.length - shown.length;
  const more = hidden > 0 ? `; --all also shows ${countGaps(hidden, 'acknowledged')}` : '';
  // The first poll has only recorded the start date.
  if (stored === since) {
    printer.print({ text: coverage?.message ?? '', data });
    return EXIT.failed;
  }
  // An unconfirmed span raises no alarm. But if it reaches back to the start date, nothing is proven.
  const isProven = !gaps.some((gap) => gap.state === 'unconfirmed' && Date.parse(gap.from) <= (since ?? 0));
  printer.print({
    text: isProven
      ? `${countGaps(open.length, 'open')} before the watermark ${watermark}${more}.`
      : `Not shown: no poll has yet proven that every event before the watermark ${watermark} is in the inbox${more}.`,
    data,
  });
  await noteOldProof(inbox, flags, printer);
  if (!isStale) return open.length === 0 && isProven ? EXIT.good : EXIT.failed;
  const age = formatAge(Date.now() - Date.parse(watermark));
  const fix = isOwn
    ? 'Run `stablehooks catch-up`.'
    : "Check that your app's poller is running (createPoller).";
  printer.note(
    `The watermark is ${age} old. Nothing after it is proven, and later gaps are not known yet. ${fix}`,
  );
  return EXIT.failed;
}

const NO_POLL = "No poll has read the service's event list yet, so nothing is proven.";
const POLL_IN_APP = "Start your app's poller (createPoller).";
const POLL_HERE = 'Run `stablehooks catch-up`.';

interface AcknowledgeFlags extends InboxFlags {
  readonly from: Moment;
  readonly until?: Moment;
  readonly by: string;
  readonly reason: string;
}

function acknowledgeCommand(): Command {
  const command = addInboxFlags(
    new Command('acknowledge').description(
      'accept a gap without proof; the inbox records who accepted it, when and why',
    ),
  )
    .requiredOption('--from <time>', 'start of the gap, as printed by `gaps list`', parseMoment)
    .option(
      '--until <time>',
      'end of the span to accept; the rest of the gap stays open (default: the whole gap)',
      parseMoment,
    )
    .requiredOption('--by <name>', 'who accepts the gap', parseText(200))
    .requiredOption(
      '--reason <text>',
      'why no event is missing, or why a missing event is acceptable',
      parseText(1_000),
    );
  return addInboxAction(command, acknowledge, [
    'stablehooks gaps acknowledge --inbox events.db --from 2026-01-31T12:00:00.000Z \\',
    "    --by ada --reason 'checked against the January ledger'",
  ]);
}

async function acknowledge(inbox: OpenInbox, { flags, printer }: CommandContext<AcknowledgeFlags>) {
  const { by, reason } = flags;
  const from = toDate(flags.from, Date.now()).getTime();
  const until = flags.until && toDate(flags.until, Date.now()).toISOString();
  const gap = findGap((await listGaps(inbox)).filter(isOpen), { from, until });
  const acknowledged = await acknowledgeGap(inbox, { ...gap, until: until ?? gap.until }, { by, reason });
  if (acknowledged === null) {
    throw unreachableError(
      'Another process is polling with this inbox, so nothing was acknowledged. Run the same command again, or stop that process first.',
    );
  }
  printer.print({ text: toText(acknowledged, flags), data: acknowledged });
  return EXIT.good;
}

function findGap(
  open: readonly Gap[],
  { from, until }: { readonly from: number; readonly until: string | undefined },
): Gap {
  if (until !== undefined && Date.parse(until) <= from)
    throw usageError('--until must be later than --from.');
  const found = open.filter((gap) => Date.parse(gap.from) === from);
  const [gap = found[0], another] = found.length > 1 ? found.filter((each) => each.until === until) : found;
  if (gap === undefined) throw unknownGapError(from, open);
  if (another !== undefined || (found.length > 1 && gap.until !== until)) {
    throw usageError(
      `${found.length} open gaps begin at ${gap.from}. Pass --until as printed by \`gaps list\`: ${found.map((each) => each.until).join(' or ')}.`,
    );
  }
  return gap;
}

function unknownGapError(from: number, open: readonly Gap[]): Error {
  const exist =
    open.length === 0
      ? 'There are no open gaps.'
      : `Open gaps begin at ${open.map((gap) => gap.from).join(', ')}.`;
  return usageError(`No open gap begins at ${new Date(from).toISOString()}. ${exist}`);
}

function isOpen({ state }: Gap): boolean {
  return state === 'open';
}

function countGaps(count: number, state: string): string {
  return `${count === 0 ? 'No' : count} ${state} gap${count === 1 ? '' : 's'}`;
}

function toText(gap: Gap, place: InboxFlags): readonly Text[] {
  const text = `${gap.state.padEnd(12)}  ${toPlain(describeGap(gap))}`;
  if (!isOpen(gap)) return [text];
  const command = [
    `              stablehooks gaps acknowledge${toInboxWords(place)} \\`,
    `                --from ${gap.from} --until ${gap.until} \\`,
    '                --by NAME --reason TEXT',
  ];
  return [text, { whole: command.join('\n') }];
}
