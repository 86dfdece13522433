import { Command } from 'commander';
import { encodeEvent, type InboxOperations, type InboxState } from 'stablehooks';
import { type EndpointAnswer, isBusy, isQueued, isWrongTarget } from '../io/answer.js';
import { type DeliveryRow, noteUnaccepted, printRow, summarise } from '../io/delivery-rows.js';
import { toFailure } from '../io/errors.js';
import type { OpenInbox } from '../io/inbox.js';
import {
  addSelection,
  changeSelected,
  FORCE_RISK,
  type SelectionFlags,
  userName,
} from '../io/inbox-filter.js';
import { countOf, EXIT, type ExitCode, interruptedExit, nameSome, toPlain } from '../io/output.js';
import { type Runnable, toClaimOptions, toFailOptions } from '../io/run-by-hand.js';
import { createSender, type Sender } from '../io/sender.js';
import { addAction, addSecretFlags, type CommandContext, parseEndpoint, parseWait } from '../io/settings.js';
import { describeUnknownStep, unknownSteps } from '../io/unknown-steps.js';
import { hasTakenEffect, toLastError } from '../io/without-handler.js';

interface RunFlags extends SelectionFlags {
  readonly to: string;
  readonly timeout: number;
}

const RUNNABLE = ['received', 'failed', 'dead', 'leased'] as const satisfies readonly InboxState[];

export function runCommand(): Command {
  const command = addSelection(
    new Command('run').description('run events now by making them due and sending them to an endpoint'),
    RUNNABLE,
  )
    .requiredOption('--to <url>', 'endpoint that runs the events', parseEndpoint)
    .option('--timeout <duration>', 'how long to wait for a response', parseWait, 10_000);
  addSecretFlags(command);
  return addAction(command, run, [
    'stablehooks inbox run --state dead --inbox app.db --to localhost:3000/hooks',
  ]);
}

async function run(context: CommandContext<RunFlags>) {
  const { args, flags, settings, printer } = context;
  const sender = await createSender(flags.to, settings, flags.timeout);
  return changeSelected(
    {
      ...{ args, flags, printer, states: RUNNABLE, done: 'sent' },
      async skips(inbox, id) {
        const [step] = await unknownSteps(inbox, id);
        return step === undefined ? undefined : `${toPlain(id)}: ${describeUnknownStep(step)}`;
      },
    },
    (inbox, { ids }) => sendAll(context, { ids, inbox, sender }),
  );
}

type End = 'done' | 'queued' | 'waits' | 'runs' | 'elsewhere' | 'refused';

const NOTES: readonly (readonly [Exclude<End, 'done'>, string])[] = [
  ['refused', 'No handler succeeded, so these events are still dead or failed, as before'],
  [
    'queued',
    'Queued for a worker or for a process that has a handler for the type, so the effect is not known yet. Check later with `stablehooks inbox show`',
  ],
  [
    'elsewhere',
    "Unchanged: the endpoint returned a 2xx, but this inbox did not change, so the app that uses this inbox ran no handler. Pass the URL of that app's receiver to --to",
  ],
  ['runs', 'Still running in the app. Check later with `stablehooks inbox show`'],
  [
    'waits',
    "Waiting for a running event with the same ordering key. The app's redrive(), start() or poller will run it next",
  ],
];

interface RunRow extends DeliveryRow {
  readonly end: End;
}

async function sendAll(
  { printer, signal, flags }: CommandContext<RunFlags>,
  {
    ids,
    inbox,
    sender,
  }: { readonly ids: readonly string[]; readonly inbox: OpenInbox; readonly sender: Sender },
): Promise<ExitCode> {
  const rows: RunRow[] = [];
  let skipped = 0;
  let failed = 0;
  let isInboxLost = false;
  for (const id of ids) {
    const last = rows.at(-1);
    // Otherwise, later events would run in the same wrong app or fail for the same reason.
    if (signal.aborted || isInboxLost || last?.end === 'elsewhere' || (last && isWrongTarget(last.answer)))
      break;
    let reached: keyof typeof LEFT = 'selected';
    try {
      const record = await takeOrNote(id, inbox, { printer, force: flags.force });
      if (record === undefined) {
        skipped += 1;
        continue;
      }
      reached = 'requeued';
      const { answer } = await sender.sendKept(Buffer.from(encodeEvent(record.event)));
      reached = 'sent';
      const row = { event: record.event, answer, end: await recordAnswer(answer, record, inbox) };
      rows.push(row);
      printRow(printer, row, () => row.end === 'done');
    } catch (error) {
      failed += 1;
      printer.note(`${toPlain(id)} ${LEFT[reached]}: ${toFailure(error).message}`);
      // The inbox counts as lost only if it fails again, because the first failure may concern only this event.
      isInboxLost = await inbox.find(id).then(
        () => false,
        () => true,
      );
    }
  }
  const untried = ids.length - rows.length - skipped - failed;
  if (untried > 0) printer.note(`Not tried, and unchanged: ${countOf(untried, 'event')}.`);
  printer.note(`${summarise(rows, ids.length)}.`);
  for (const [end, meaning] of NOTES) {
    const named = rows.flatMap((row) => (row.end === end ? row.event.id : []));
    if (named.length > 0) printer.note(`${meaning}: ${nameSome(named)}.`);
  }
  noteUnaccepted(
    printer,
    rows.flatMap(({ end, answer }) => (end === 'refused' ? answer : [])),
  );
  if (signal.aborted) return interruptedExit();
  if (isInboxLost || rows.some(({ answer }) => answer.kind === 'unreachable')) return EXIT.unreachable;
  return rows.length === ids.length && rows.every(({ end }) => end === 'done') ? EXIT.good : EXIT.failed;
}

/** The keys name the last step that succeeded before the inbox failed. */
const LEFT = {
  selected: 'was neither requeued nor sent',
  requeued: "is due but was not sent, so the app's redrive() or poller will run it",
  sent: 'is due and was sent, but the response was not recorded, so it may run again',
} as const;

/** Returns `undefined` if another process changed the event, because the event could then run twice. */
async function takeOrNote(
  id: string,
  inbox: InboxOperations,
  { printer, force }: Pick<CommandContext<RunFlags>, 'printer'> & { readonly force: boolean | undefined },
): Promise<Runnable | undefined> {
  const record = await inbox.find(id);
  if (
    record?.state === 'received' ||
    (await inbox.requeue({ ids: [id], force, by: userName(), reason: 'stablehooks inbox run' })) > 0
  ) {
    if (record?.event) return { ...record, event: record.event };
    printer.note(
      `${toPlain(id)} was skipped: its stored text cannot be read. Ask the service to deliver it again.`,
    );
    return undefined;
  }
  const [step] = await unknownSteps(inbox, id);
  if (step !== undefined) {
    printer.note(`${toPlain(id)} was skipped: ${describeUnknownStep(step)}`);
    return undefined;
  }
  printer.note(
    record?.state === 'leased'
      ? `${toPlain(id)} was skipped. ${FORCE_RISK}`
      : `${toPlain(id)} was skipped: another process changed it, and it is now ${record?.state ?? 'not in the inbox'}.`,
  );
  return undefined;
}

/**
 * In the inbox of an app, a 2xx that leaves the inbox unchanged does not count as an effect, because a page at a wrong
 * path or another app may have responded.
 */
async function recordAnswer(answer: EndpointAnswer, record: Runnable, inbox: OpenInbox): Promise<End> {
  const { event } = record;
  const state = (await inbox.find(event.id))?.state;
  if (state === 'done') return 'done';
  // The app claimed the event before this command sent it, or the handler has not finished yet.
  if (state === 'leased') return 'runs';
  if (isQueued(answer)) return 'queued';
  const isRunByApp = state !== 'received';
  if (isRunByApp && (state !== 'failed' || record.state !== 'dead')) return 'refused';
  const isAccepted = !isRunByApp && hasTakenEffect(answer, record.lastError);
  const isDone = isAccepted && inbox.isOwn;
  const how = toClaimOptions(record);
  let claim = await inbox.claim(event, how);
  if (claim.state === 'waiting') {
    if (!isDone) return isBusy(answer) || !isRunByApp ? 'waits' : 'refused';
    // The event must not take effect again. No handler runs under this lease, so the claim needs no key.
    claim = await inbox.claim(event, { ...how, key: undefined });
  }
  const end = isDone ? 'done' : isAccepted ? 'elsewhere' : 'refused';
  if (claim.state !== 'claimed') return end;
  if (isDone) await inbox.complete(claim.lease);
  else {
    const where = isAccepted ? ', by an endpoint that does not use this inbox' : '';
    const error = `${toLastError(answer, record.lastError)}${where}`;
    await inbox.fail(claim.lease, toFailOptions(record, error));
  }
  return end;
}
