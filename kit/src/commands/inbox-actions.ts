import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import type { InboxOperations, InboxState } from 'stablehooks';
import { usageError } from '../io/errors.js';
import { findEvents, toInboxFilter } from '../io/event-filter.js';
import { addInboxFlags, type InboxFlags, type OpenInbox, toInboxWords, withInbox } from '../io/inbox.js';
import {
  addSelection,
  changeSelected,
  describeStates,
  FORCE_RISK,
  IGNORED_FLAG,
  inBatches,
  type Selected,
  type SelectionFlags,
  userName,
} from '../io/inbox-filter.js';
import { countOf, EXIT, formatDuration, interruptedExit, type Printer, toPlain } from '../io/output.js';
import { addAction, type CommandContext, parseDuration, parseText, readInput } from '../io/settings.js';
import { describeUnknownStep, unknownSteps } from '../io/unknown-steps.js';
import { toShellWord } from '../shell-word.js';

interface RequeueFlags extends SelectionFlags {
  readonly wait: number;
  readonly step?: StepStatements;
  readonly rehearsed?: string;
  readonly by?: string;
  readonly reason?: string;
}

type InboxRequeue = Exclude<Parameters<InboxOperations['requeue']>[0], string>;

/** `done` if the step's effect happened, `again` to rerun the step. */
type StepStatements = Readonly<Record<string, 'done' | 'again'>>;

const REQUEUEABLE = ['failed', 'dead', 'leased'] as const satisfies readonly InboxState[];

export function requeueCommand(): Command {
  const command = addSelection(
    new Command('requeue').description(
      'make dead, failed or expired events due now (or ignored events, with --ignored); one event is requeued first, and the others only after your app has run that event',
    ),
    REQUEUEABLE,
  ).option(
    '--wait <duration>',
    'how long to wait for a process to run the events; 0 makes all events due without waiting',
    parseDuration,
    10_000,
  );
  command.option(
    '--by <name>',
    'who requeues the events; the history of each event records this name (default: USER)',
    parseText(200),
  );
  command.option(
    '--reason <text>',
    'why the events are requeued; the history of each event records this reason',
    parseText(1_000),
  );
  command.option(...IGNORED_FLAG);
  command.option(
    '--step <name=what>',
    "how to resolve a step that began but recorded no result: NAME=done if the step's effect happened, or NAME=again to rerun the step; requires the id of a single event",
    addStatement,
  );
  command.option(
    '--rehearsed <file>',
    'JSON file with the result of receiver.rehearse(); only events that succeeded in the rehearsal are requeued',
  );
  return addAction(command, requeue, [
    'stablehooks inbox requeue --inbox app.db --state dead --since 2026-01-30 --until 2026-01-31',
    'stablehooks inbox requeue evt_01 --inbox app.db --step payout=done',
  ]);
}

function addStatement(text: string, others: StepStatements = {}): StepStatements {
  const [, name = '', what] = /^(.+)=(done|again)$/.exec(text) ?? [];
  if (what !== 'done' && what !== 'again') {
    throw usageError(
      'Pass --step NAME=done if the effect of the step happened, or --step NAME=again to rerun the step.',
    );
  }
  return { ...others, [name]: what };
}

async function checkStatements(
  inbox: InboxOperations,
  ids: readonly string[],
  steps: StepStatements,
): Promise<void> {
  const [id, ...others] = ids;
  if (id === undefined || others.length > 0)
    throw usageError('--step applies to a single event. Pass the id of that event.');
  const unknown = await unknownSteps(inbox, id);
  const wrong = Object.keys(steps).find((name) => !unknown.includes(name));
  if (wrong === undefined) return;
  throw usageError(
    `${toPlain(id)} has no step ${toPlain(wrong)} without a result. See \`stablehooks inbox show\`.`,
  );
}

export async function noteSkipped(
  inbox: InboxOperations,
  held: readonly string[],
  { skipped, printer }: { readonly skipped: number; readonly printer: Pick<Printer, 'note'> },
): Promise<void> {
  for (const id of held) {
    const [step] = await unknownSteps(inbox, id);
    if (step === undefined && (await inbox.find(id))?.state === 'leased') {
      printer.note(`${toPlain(id)} was not requeued. ${FORCE_RISK}`);
      if (skipped > 1) printer.note(`Skipped in total: ${countOf(skipped, 'event')}.`);
      return;
    }
    if (step === undefined) continue;
    printer.note(`${toPlain(id)} was not requeued: ${describeUnknownStep(step)}`);
    if (skipped > 1) printer.note(`Skipped in total: ${countOf(skipped, 'event')}.`);
    return;
  }
  printer.note(`Skipped: ${countOf(skipped, 'event')} changed by another process.`);
}

/** `held` contains the ids of the events that are still dead, failed or leased. */
export async function requeueAll(
  inbox: InboxOperations,
  { ids, filter, ...how }: Selected & Pick<InboxRequeue, 'steps' | 'force' | 'by' | 'reason'>,
): Promise<{ readonly requeued: number; readonly held: readonly string[] }> {
  const held: string[] = [];
  const requeued = await inBatches(ids, async (some) => {
    const limit = some.length;
    const count = await inbox.requeue({ ...toInboxFilter(filter), ...how, ids: some, limit });
    if (count === limit) return count;
    const records = await inbox.list({ ids: some, limit });
    held.push(...records.flatMap(({ id, state }) => (isRequeueable(state) ? [id] : [])));
    return count;
  });
  return { requeued, held };
}

function isRequeueable(state: InboxState): boolean {
  return REQUEUEABLE.some((each) => each === state);
}

async function readRehearsed(file: string): Promise<readonly string[]> {
  const text = new TextDecoder().decode(await readInput(file, '--rehearsed'));
  let results: unknown;
  try {
    results = JSON.parse(text);
  } catch {
    results = undefined;
  }
  const ids = (Array.isArray(results) ? results : []).flatMap((each) => {
    const { id, verdict }: Partial<Record<'id' | 'verdict', unknown>> = Object(each);
    return typeof id === 'string' && verdict === 'succeeds' ? [id] : [];
  });
  if (ids.length > 0) return ids;
  throw usageError(
    `${toPlain(file)} contains no event that succeeded. Pass the result of \`receiver.rehearse()\` as JSON.`,
  );
}

async function requeue({ args: given, flags, printer, signal }: CommandContext<RequeueFlags>) {
  if (flags.rehearsed !== undefined && given.length > 0)
    throw usageError('Select events by id or with --rehearsed, not both.');
  const args = flags.rehearsed === undefined ? given : await readRehearsed(flags.rehearsed);
  return changeSelected(
    {
      ...{ args, flags, printer, done: 'requeued' },
      states: flags.ignored ? ['done'] : REQUEUEABLE,
      async skips(inbox, id) {
        const step = (await unknownSteps(inbox, id)).find((name) => flags.step?.[name] === undefined);
        return step === undefined ? undefined : `${toPlain(id)}: ${describeUnknownStep(step)}`;
      },
    },
    async (inbox, { ids, filter }) => {
      const { step: steps, force, reason, by = userName() } = flags;
      if (steps !== undefined) await checkStatements(inbox, ids, steps);
      const isWatched = flags.wait > 0;
      // The first event shows whether the app runs events and whether the cause is fixed.
      const groups = isWatched && ids.length > 1 ? [ids.slice(0, 1), ids.slice(1)] : [ids];
      const tried: string[] = [];
      const held: string[] = [];
      let requeued = 0;
      let watched: Watched = { states: {}, isTaken: false };
      for (const group of groups) {
        if (tried.length > 0 && requeued > 0 && !isRun(watched)) break;
        const result = await requeueAll(inbox, { ids: group, filter, steps, force, by, reason });
        tried.push(...group);
        held.push(...result.held);
        requeued += result.requeued;
        watched = await watchRuns(inbox, tried, { waitMs: flags.wait, signal });
        if (signal.aborted) break;
      }
      const { states, isTaken } = watched;
      const [skipped, untried] = [tried.length - requeued, ids.length - tried.length];
      printer.print({
        text: `${countOf(requeued, 'event')} requeued${isWatched ? `; now ${describeStates(states)}` : ''}.`,
        data: { requeued, skipped, untried, ...(isWatched && { states }) },
      });
      if (skipped > 0) await noteSkipped(inbox, held, { skipped, printer });
      if (untried > 0)
        printer.note(
          `Not requeued, because the first event did not succeed: ${countOf(untried, 'event')}. Pass --wait 0 to make all of them due without waiting.`,
        );
      if (signal.aborted) return interruptedExit();
      if (!isWatched) {
        printer.note(
          'This command did not check whether a process runs the events. Check later with `stablehooks status`.',
        );
        return skipped === 0 ? EXIT.good : EXIT.failed;
      }
      const { received = 0, leased = 0, failed = 0, dead = 0, done = 0 } = states;
      const place = toInboxWords(flags);
      if (received > 0) {
        const which =
          tried.length > 3 ? '--state received' : tried.map((id) => toShellWord(toPlain(id))).join(' ');
        const seen = isTaken
          ? `${countOf(received, 'event')} still due: nothing changed for ${formatDuration(flags.wait)}.`
          : `No process ran the events within ${formatDuration(flags.wait)}. Start your app, and call receiver.start() in a process that has the handlers.`;
        printer.note(`${seen} To run them now: \`stablehooks inbox run ${which}${place} --to URL\`.`);
      }
      if (leased > 0) printer.note(`${countOf(leased, 'event')} still running in a handler.`);
      const failedAgain = failed + dead - held.length;
      if (failedAgain > 0)
        printer.note(
          `${failedAgain} failed again. To see the errors, run \`stablehooks inbox list${place}\`.`,
        );
      return done === ids.length ? EXIT.good : EXIT.failed;
    },
  );
}

const LOOK_MS = 250;

interface Watched {
  readonly states: Partial<Record<InboxState, number>>;
  /** Whether any event has left the state `received`. */
  readonly isTaken: boolean;
}

const isRun = ({ states: { dead = 0, failed = 0 }, isTaken }: Watched) => isTaken && dead + failed === 0;

/** `waitMs` limits the time without any change, not the total time. */
async function watchRuns(
  inbox: InboxOperations,
  ids: readonly string[],
  { waitMs, signal }: { readonly waitMs: number; readonly signal: AbortSignal },
): Promise<Watched> {
  let changedAt = performance.now();
  let isTaken = false;
  for (let last = ''; ; ) {
    const states = await countIds(inbox, ids);
    const { received = 0, leased = 0 } = states;
    if (describeStates(states) !== last) changedAt = performance.now();
    last = describeStates(states);
    isTaken ||= received < ids.length;
    if (received + leased === 0 || signal.aborted || performance.now() - changedAt >= waitMs)
      return { states, isTaken };
    await wait(Math.min(LOOK_MS, waitMs), undefined, { signal }).catch(() => undefined);
  }
}

async function countIds(inbox: InboxOperations, ids: readonly string[]): Promise<Watched['states']> {
  const sums: Partial<Record<InboxState, number>> = {};
  await inBatches(ids, async (some) => {
    for (const { state, count } of await inbox.count({ ids: some }))
      if (count > 0) sums[state] = (sums[state] ?? 0) + count;
    return 0;
  });
  return sums;
}

interface DiscardFlags extends SelectionFlags {
  readonly by: string;
  readonly reason: string;
}

const DISCARDABLE = [
  'received',
  'failed',
  'dead',
  'parked',
  'leased',
] as const satisfies readonly InboxState[];

export function discardCommand(): Command {
  const command = addSelection(
    new Command('discard').description(
      'discard events that must not run; the inbox records who discarded them and why',
    ),
    DISCARDABLE,
  )
    .requiredOption('--by <name>', 'name of the person who discards the events', parseText(200))
    .requiredOption('--reason <text>', 'why the events must not run', parseText(1_000));
  return addAction(command, discard, [
    "stablehooks inbox discard evt_01 --inbox app.db --by ada --reason 'booked by hand'",
  ]);
}

async function discard({ args, flags, printer }: CommandContext<DiscardFlags>) {
  const { by, reason } = flags;
  return changeSelected(
    { args, flags, printer, states: DISCARDABLE, done: 'discarded' },
    async (inbox, { ids, filter }) => {
      const discarded = await inBatches(ids, (some) =>
        inbox.discard({
          ...toInboxFilter(filter),
          ids: some,
          by,
          reason,
          limit: some.length,
          force: flags.force,
        }),
      );
      const skipped = ids.length - discarded;
      printer.print({
        text: `${countOf(discarded, 'event')} discarded: marked done without running a handler, so later deliveries are treated as duplicates.`,
        data: { discarded, skipped },
      });
      if (skipped > 0)
        printer.note(
          `Skipped: ${countOf(skipped, 'event')} that another process changed or is running. ${FORCE_RISK}`,
        );
      let running = 0;
      if (flags.state === undefined && args.length === 0)
        for await (const _ of findEvents(inbox, { ...filter, state: 'leased' })) running += 1;
      if (running > 0)
        printer.note(`Not discarded: ${countOf(running, 'event')} still leased by a process. ${FORCE_RISK}`);
      return skipped + running === 0 ? EXIT.good : EXIT.failed;
    },
  );
}

export function importCommand(): Command {
  const command = addInboxFlags(
    new Command('import').description(
      'record as done the ids of events that your old handler has already processed',
    ),
  ).requiredOption('--ids <file>', 'file with one id per line, or - for stdin');
  return addAction(command, importIds, ['stablehooks inbox import --ids processed.txt --inbox app.db']);
}

async function importIds({ flags, printer }: CommandContext<InboxFlags & { readonly ids: string }>) {
  const ids = readIds(await readInput(flags.ids, '--ids'), `--ids ${flags.ids}`);
  const work = async (inbox: OpenInbox) => {
    const isUnused = (await inbox.count()).every(({ count }) => count === 0);
    const imported = await inbox.importDone(ids);
    const { done = 0, ...open } = await countIds(inbox, ids);
    printer.print({
      text: `${countOf(imported, 'id')} imported as done; ${ids.length - imported} of ${ids.length} were already in the inbox.`,
      data: { imported, known: ids.length - imported, notDone: ids.length - done },
    });
    if (isUnused) printer.note("The inbox was empty before. Check that it is your app's inbox.");
    if (done === ids.length) return EXIT.good;
    printer.note(
      `Left unchanged, because they are not done: ${describeStates(open)}. They may still run. To prevent that, use \`stablehooks inbox discard\`.`,
    );
    return EXIT.failed;
  };
  return withInbox(flags, work, { unused: true });
}

function readIds(bytes: Uint8Array, name: string): readonly string[] {
  const lines = new TextDecoder().decode(bytes).split(/\r?\n/);
  const ids = new Set<string>();
  for (const [index, line] of lines.entries()) {
    const id = line.trim();
    if (id === '') continue;
    // Otherwise, each line of a table or JSON file would be imported as the id of an event that does not exist.
    if (/[\s,;"{}[\]\p{Cc}\ufffd]/u.test(id))
      throw usageError(
        `${name}, line ${index + 1}: expected exactly one id. Write one id per line and nothing else.`,
      );
    ids.add(id);
  }
  if (ids.size === 0) throw usageError(`${name}: the file contains no ids.`);
  return [...ids];
}
