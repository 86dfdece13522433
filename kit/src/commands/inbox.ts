import { Command, Option } from 'commander';
import {
  INBOX_STATES,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type UnknownEvent,
} from 'stablehooks';
import { canAsk, confirm } from '../io/confirm.js';
import {
  createSender,
  type DeliveryRow,
  type EndpointAnswer,
  isBusy,
  isQueued,
  noteUnaccepted,
  printRow,
  summarise,
} from '../io/delivery.js';
import { toFailure, usageError } from '../io/errors.js';
import {
  addInboxFlags,
  type InboxFlags,
  type OpenInbox,
  openInbox,
  recordsOf,
  withInbox,
} from '../io/inbox.js';
import { isOwnInbox } from '../io/inbox-owner.js';
import {
  countOf,
  EXIT,
  type ExitCode,
  formatAge,
  formatDuration,
  interruptedExit,
  type Printer,
  toJsonText,
  toPlain,
  toPrintedJson,
  toTable,
} from '../io/output.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  type CommandContext,
  parseCount,
  parseDuration,
  parseUrl,
  parseWait,
} from '../io/settings.js';
import { hasTakenEffect, toLastError } from '../io/without-handler.js';

export function inboxCommand(): Command {
  return new Command('inbox')
    .addCommand(statsCommand())
    .addCommand(listCommand())
    .addCommand(showCommand())
    .addCommand(requeueCommand())
    .addCommand(redriveCommand())
    .addCommand(pruneCommand());
}

function statsCommand(): Command {
  const command = addInboxFlags(new Command('stats').description('count the events of each state'));
  addExample(command, ['stablehooks inbox stats --inbox events.db']);
  return addAction<InboxFlags>(command, ({ flags, printer }) =>
    withInbox(flags, async (inbox) => {
      const counts = await inbox.count();
      const { bad } = printer.paint;
      const rows = counts.map(({ state, count, oldest }) => [
        state,
        state === 'dead' && count > 0 ? { text: String(count), paint: bad } : String(count),
        oldest === null ? '' : formatAge(Date.now() - oldest),
      ]);
      const data = counts.map((each) => ({ ...each, oldest: toTime(each.oldest) }));
      printer.print({ text: toTable(['state', 'events', 'oldest'], rows), data });
      return EXIT.good;
    }),
  );
}

interface ListFlags extends InboxFlags {
  readonly state?: InboxState;
  readonly limit: number;
}

function listCommand(): Command {
  const command = addInboxFlags(new Command('list').description('list events by state, oldest first'))
    .addOption(new Option('--state <state>', 'only this state (default: all)').choices(INBOX_STATES))
    .option('--limit <number>', 'how many of a state at most', parseCount, 50);
  addExample(command, ['stablehooks inbox list --inbox events.db --state dead']);
  return addAction<ListFlags>(command, ({ flags, printer }) =>
    withInbox(flags, async (inbox) => {
      const { limit } = flags;
      const pages: (readonly InboxRecord[])[] = [];
      for (const state of flags.state === undefined ? INBOX_STATES : [flags.state]) {
        // One more record shows whether the page is cut.
        pages.push(await inbox.list({ state, limit: limit + 1 }));
      }
      printRecords(
        printer,
        pages.flatMap((page) => page.slice(0, limit)),
      );
      const cut = pages.flatMap((page) => (page.length > limit && page[0] ? [page[0].state] : []));
      if (cut.length > 0) printer.note(`There are more ${cut.join(', ')} events. Raise --limit.`);
      return EXIT.good;
    }),
  );
}

function printRecords(printer: Printer, records: readonly InboxRecord[]): void {
  if (printer.json) {
    for (const record of records) printer.print({ text: '', data: withTimes(record) });
    return;
  }
  if (records.length === 0) {
    printer.print({ text: 'No events.', data: null });
    return;
  }
  const rows = records.map(({ type, id, state, receivedAt }) => [
    type,
    id,
    state,
    formatAge(Date.now() - receivedAt),
  ]);
  const [head = '', ...lines] = toTable(['type', 'id', 'state', 'age'], rows).split('\n');
  const text = records.flatMap(({ attempts, lastError }, index) => [
    lines[index] ?? '',
    ...(lastError === null ? [] : [`  ${countOf(attempts, 'attempt')}: ${toPlain(lastError)}`]),
  ]);
  printer.print({ text: [head, ...text].join('\n'), data: null });
}

function showCommand(): Command {
  const command = addInboxFlags(
    new Command('show')
      .description('print the record of one event, with its last attempts')
      .argument('<id>', 'id of the event'),
  );
  addExample(command, ['stablehooks inbox show evt_01 --inbox events.db']);
  return addAction<InboxFlags>(command, ({ args: [id = ''], flags, printer }) =>
    withInbox(flags, async (inbox) => {
      const record = await inbox.find(id);
      if (record === undefined) throw usageError(`The inbox has no event ${toPlain(id)}. Check the id.`);
      const data = withTimes(record);
      printer.print({ text: toPrintedJson(data, 2), data });
      return EXIT.good;
    }),
  );
}

/** The record with its times as ISO 8601 strings, and with a trace context only if it has one. */
function withTimes(record: InboxRecord): object {
  const { traceparent, receivedAt, updatedAt, dueAt, history } = record;
  return {
    ...record,
    traceparent: traceparent ?? undefined,
    receivedAt: toTime(receivedAt),
    updatedAt: toTime(updatedAt),
    dueAt: toTime(dueAt),
    history: history.map(({ startedAt, endedAt, ...attempt }) => ({
      ...attempt,
      startedAt: toTime(startedAt),
      endedAt: toTime(endedAt),
    })),
  };
}

function toTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

interface PickFlags extends InboxFlags {
  readonly allDead?: boolean;
}

/** Adds the selection of the events to run again. */
function addPick(command: Command): Command {
  return addInboxFlags(command)
    .argument('[ids...]', 'ids of dead or failed events')
    .option('--all-dead', 'all events that are dead');
}

function requeueCommand(): Command {
  const command = addPick(
    new Command('requeue').description(
      'make dead or failed events due now; the next delivery or redrive runs them',
    ),
  );
  addExample(command, ['stablehooks inbox requeue evt_01 --inbox events.db']);
  return addAction<PickFlags>(command, ({ args, flags, printer }) => {
    assertPick(args, flags);
    return withInbox(flags, async (inbox) => {
      const picked = await pickRequeueable(inbox, args);
      let requeued = 0;
      for (const { id } of picked) {
        if (await requeueOrNote(id, inbox, printer)) requeued += 1;
      }
      const text = picked.length === 0 ? `${NO_DEAD} requeued.` : describeRequeued(requeued);
      printer.print({ text, data: { requeued, skipped: picked.length - requeued } });
      return requeued === picked.length ? EXIT.good : EXIT.failed;
    });
  });
}

const NO_DEAD = 'There are no dead events, so nothing was';

function describeRequeued(count: number): string {
  const counted = `${countOf(count, 'event')} requeued`;
  if (count === 0) return `${counted}.`;
  return `${counted}; the receiver's redrive() or its poller runs ${count === 1 ? 'it' : 'them'}, or the next delivery.`;
}

/** Requeues an event. Resolves to `false`, with a note, when another process has changed it since it was listed. */
async function requeueOrNote(id: string, inbox: InboxOperations, printer: Printer): Promise<boolean> {
  const requeued = (await inbox.requeue(id)) > 0;
  if (!requeued) {
    printer.note(
      `${toPlain(id)} is no longer dead or failed: another process has changed it. It is skipped.`,
    );
  }
  return requeued;
}

interface RedriveFlags extends PickFlags {
  readonly to: string;
  readonly timeout: number;
}

function redriveCommand(): Command {
  const command = addPick(
    new Command('redrive').description('requeue dead or failed events, and send them to an endpoint'),
  )
    .requiredOption('--to <url>', 'endpoint that runs them; `inbox requeue` leaves that to the app')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000);
  addSecretFlags(command);
  addExample(command, [
    'stablehooks inbox redrive --all-dead --inbox events.db --to http://localhost:3000/hooks',
  ]);
  return addAction(command, redrive);
}

async function redrive({
  args,
  flags,
  settings,
  printer,
  signal,
}: CommandContext<RedriveFlags>): Promise<ExitCode> {
  assertPick(args, flags);
  const sender = await createSender(parseUrl(flags.to, '--to'), settings, flags.timeout);
  const inbox = await openInbox(flags);
  try {
    const picked = await pickRequeueable(inbox, args);
    if (picked.length === 0) {
      printer.print({ text: `${NO_DEAD} sent.`, data: { sent: 0 } });
      // As in `events replay`: without an event, nothing was checked.
      return EXIT.failed;
    }
    // The event can be older than the newest events.
    const ofApp = picked.some(({ origin }) => origin !== 'pull') || !(await isOwnInbox(inbox));
    const rows: RedriveRow[] = [];
    let skipped = 0;
    let failed = 0;
    let isInboxLost = false;
    const progress = printer.progress('redrive', picked.length);
    for (const record of picked) {
      const { event } = record;
      if (signal.aborted || isInboxLost || rows.at(-1)?.answer.kind === 'unreachable') break;
      let reached: keyof typeof LEFT = 'picked';
      try {
        // If another process requeued the event, it could run twice.
        if (event === null || !(await requeueOrNote(event.id, inbox, printer))) {
          skipped += 1;
          continue;
        }
        reached = 'requeued';
        const answer = await sender.send(event);
        reached = 'sent';
        const row = { event, ...(await recordAnswer(answer, { event, record, ofApp }, inbox)) };
        rows.push(row);
        printRow(printer, row, () => row.done);
      } catch (error) {
        failed += 1;
        printer.note(`${toPlain(record.id)} ${LEFT[reached]}: ${toFailure(error).message}`);
        // The inbox may fail for this event only.
        isInboxLost = await inbox.find(record.id).then(
          () => false,
          () => true,
        );
      }
      progress.show(rows.length + skipped + failed);
    }
    progress.clear();
    const untried = picked.length - rows.length - skipped - failed;
    if (untried > 0) printer.note(`Not tried and unchanged: ${countOf(untried, 'event')}.`);
    const refused = rows.filter(({ done, queued, left }) => !done && !queued && left === undefined).length;
    printer.note(`${summarise(rows, picked.length)}.`);
    if (refused > 0) {
      printer.note(
        'Events that no handler ran are still in the inbox: dead, or failed until their retry time.',
      );
    }
    const queued = rows.filter((row) => row.queued).length;
    if (queued > 0) {
      printer.note(
        `${queued} queued: a worker, or a process that has a handler for the type, runs ${queued === 1 ? 'it' : 'them'} later, so the effect is not shown. See \`stablehooks inbox show\`.`,
      );
    }
    const idsOf = (left: Redriven['left']) =>
      rows.flatMap((row) => (row.left === left ? toPlain(row.event.id) : []));
    const elsewhere = idsOf('elsewhere');
    if (elsewhere.length > 0) {
      printer.note(
        `${elsewhere.join(', ')} ${elsewhere.length === 1 ? 'is' : 'are'} unchanged: the endpoint answered 2xx without a change of this inbox, so the app of this inbox ran no handler. Pass the URL of its receiver to --to.`,
      );
    }
    const running = idsOf('runs');
    if (running.length > 0) {
      printer.note(
        `${running.join(', ')} ${running.length === 1 ? 'runs' : 'run'} in the app at this moment: its redrive(), start() or poller was first. See \`stablehooks inbox show\` later.`,
      );
    }
    const waiting = idsOf('waits');
    if (waiting.length > 0) {
      const [which, them] = waiting.length === 1 ? ['waits', 'it'] : ['wait', 'them'];
      printer.note(
        `${waiting.join(', ')} ${which} for another event of the same ordering key, which runs. The app's redrive(), start() or poller runs ${them} in turn. See \`stablehooks inbox show\` later.`,
      );
    }
    const answers = rows.map(({ answer }) => answer);
    noteUnaccepted(printer, answers);
    if (signal.aborted) return interruptedExit();
    if (isInboxLost || answers.some(({ kind }) => kind === 'unreachable')) return EXIT.unreachable;
    return rows.length === picked.length && queued === 0 && rows.every(({ done }) => done)
      ? EXIT.good
      : EXIT.failed;
  } finally {
    await inbox.close();
  }
}

/** @throws {CommandError} exit 2 unless ids or --all-dead are given. */
function assertPick(ids: readonly string[], { allDead = false }: PickFlags): void {
  if (ids.length > 0 && allDead) throw usageError('Pass ids or --all-dead, not both.');
  if (ids.length === 0 && !allDead) throw usageError('Name the events by their ids, or pass --all-dead.');
}

/**
 * @param ids - none for all dead events.
 * @throws {CommandError} exit 2 when the event of an id is neither dead nor failed.
 */
async function pickRequeueable(
  inbox: InboxOperations,
  ids: readonly string[],
): Promise<readonly InboxRecord[]> {
  if (ids.length > 0) {
    const found = await Promise.all(
      [...new Set(ids)].map(async (id) => ({ id, record: await inbox.find(id) })),
    );
    const wrong = found.find(({ record }) => record?.state !== 'dead' && record?.state !== 'failed');
    if (wrong !== undefined) {
      throw usageError(
        wrong.record === undefined
          ? `${toPlain(wrong.id)} is not in this inbox. See \`stablehooks inbox list\`.`
          : `${toPlain(wrong.id)} is ${wrong.record.state}, and only dead and failed events can be requeued.`,
      );
    }
    return found.flatMap(({ record }) => record ?? []);
  }
  const dead: InboxRecord[] = [];
  for await (const record of recordsOf(inbox, 'dead')) dead.push(record);
  return dead;
}

/** A row of `redrive`. */
interface RedriveRow extends DeliveryRow, Redriven {}

/** The result of sending an event again. */
interface Redriven {
  readonly answer: EndpointAnswer;
  /** Whether the endpoint handled the event or, if it is queued, accepted it for later. */
  readonly done: boolean;
  /** Whether the endpoint only accepted the event for later, so the answer does not show its effect. */
  readonly queued: boolean;
  /**
   * Why the event is not done although the endpoint did not refuse it: it `waits` in the inbox for another event of its
   * ordering key; it `runs`, because the app was first; or it ran `elsewhere`, if at all: the endpoint has another inbox.
   */
  readonly left?: 'waits' | 'runs' | 'elsewhere' | undefined;
}

/** The state of an event for which the inbox failed, by the step that failed. */
const LEFT = {
  picked: 'was neither requeued nor sent',
  requeued: "is requeued and was not sent, so the app's redrive() or its poller runs it",
  sent: 'is requeued and was sent, but the answer is not recorded, so it can run again',
} as const;

/**
 * Records the answer to a requeued event. If the endpoint uses this inbox, it has recorded the result itself; a lease held
 * here would have blocked it. Otherwise the result is recorded here: an event without a handler run becomes dead or failed
 * again, as it was. A queued event stays received, so the worker can claim it. So does an event that waits for another event
 * of its ordering key.
 *
 * In the inbox of an app, 2xx without a change of the inbox isn't an effect: a page at a wrong path, or another app,
 * answered. Only in an inbox of `catch-up` and `listen` does the answer alone count.
 *
 * @param answer - the answer of the endpoint.
 */
async function recordAnswer(
  answer: EndpointAnswer,
  {
    event,
    record,
    ofApp,
  }: {
    readonly event: UnknownEvent;
    readonly record: InboxRecord;
    /** Whether the inbox belongs to an app. */
    readonly ofApp: boolean;
  },
  inbox: OpenInbox,
): Promise<Redriven> {
  const state = (await inbox.find(event.id))?.state;
  const isAccepted = hasTakenEffect(answer, record.lastError);
  const queued = isQueued(answer) && state !== 'done';
  // The app claimed the event after it was requeued and before it was sent.
  if (isBusy(answer) && state === 'leased') return { answer, done: false, queued, left: 'runs' };
  if (isBusy(answer) && state === 'done') return { answer, done: true, queued };
  if (queued || state !== 'received') return { answer, done: isAccepted, queued };
  const isElsewhere = isAccepted && ofApp;
  const result: Redriven = {
    answer,
    done: isAccepted && !isElsewhere,
    queued,
    left: isElsewhere ? 'elsewhere' : undefined,
  };
  const how = { leaseMs: LEASE_MS, origin: 'redrive', json: toJsonText(event) } as const;
  let claim = await inbox.claim(event, { ...how, key: record.key ?? undefined });
  if (claim.state === 'waiting') {
    if (!result.done) return { ...result, left: 'waits' };
    // It took effect, and must not take effect again. No handler runs under this lease, so it needs no key.
    claim = await inbox.claim(event, how);
  }
  if (claim.state !== 'claimed') return result;
  if (result.done) await inbox.complete(claim.lease);
  else {
    const retryAfterMs = record.state === 'dead' ? null : Math.max(0, (record.dueAt ?? 0) - Date.now());
    const where = isElsewhere ? ', by an endpoint that does not use this inbox' : '';
    await inbox.fail(claim.lease, {
      retryAfterMs,
      error: `redrive: ${toLastError(answer, record.lastError)}${where}`,
    });
  }
  return result;
}

/** Long enough to record the result in the next step. */
const LEASE_MS = 5_000;

interface PruneFlags extends InboxFlags {
  readonly olderThan: number;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

function pruneCommand(): Command {
  const command = addInboxFlags(
    new Command('prune').description(
      'delete the JSON of done events; their ids stay, so replays stay duplicates',
    ),
  )
    .requiredOption('--older-than <duration>', 'how long the events must have been done', parseDuration)
    .option('--dry-run', 'delete nothing, and print the number of events')
    .option('--yes', 'prune without a question');
  addExample(command, ['stablehooks inbox prune --inbox events.db --older-than 30d --dry-run']);
  return addAction(command, prune);
}

async function prune({ flags, printer, signal }: CommandContext<PruneFlags>): Promise<ExitCode> {
  const { olderThan: olderThanMs, dryRun = false, yes = false } = flags;
  if (dryRun && yes)
    throw usageError('--dry-run deletes nothing, so there is nothing to confirm with --yes.');
  if (!dryRun && !yes && !canAsk()) {
    throw usageError(
      'Pruned events cannot be restored. Pass --yes to prune without a question, or --dry-run.',
    );
  }
  return withInbox(flags, async (inbox) => {
    const age = `done for ${formatDuration(olderThanMs)} or longer`;
    if (!yes) {
      const count = await countPrunable(inbox, { olderThanMs, signal });
      const events = `${countOf(count, 'event')} ${age}`;
      if (dryRun) {
        printer.print({ text: `${events} would be pruned; nothing was changed.`, data: { prunable: count } });
        return EXIT.good;
      }
      if (count > 0 && !(await confirm(`Delete the JSON of ${events}?`, signal))) {
        printer.note('Nothing was pruned.');
        return signal.aborted ? interruptedExit() : EXIT.failed;
      }
    }
    const pruned = await inbox.prune({ olderThanMs });
    const kept = pruned === 1 ? 'its id is kept' : 'their ids are kept';
    const text =
      pruned === 0
        ? `No event is ${age}, so nothing was pruned.`
        : `${countOf(pruned, 'event')} pruned; ${kept}.`;
    printer.print({ text, data: { pruned } });
    return EXIT.good;
  });
}

/** Counts the done events that `prune` would prune, by the clock of this machine. */
async function countPrunable(
  inbox: InboxOperations,
  { olderThanMs, signal }: { readonly olderThanMs: number; readonly signal: AbortSignal },
): Promise<number> {
  const until = Date.now() - olderThanMs;
  let count = 0;
  for await (const { event, receivedAt, updatedAt } of recordsOf(inbox, 'done')) {
    signal.throwIfAborted();
    // Oldest receipt first, and an event is done after its receipt.
    if (receivedAt > until) break;
    if (event !== null && updatedAt <= until) count += 1;
  }
  return count;
}
