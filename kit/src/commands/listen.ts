import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { type EventType, type InboxOperations, type InboxState, memoryInbox } from 'stablehooks';
import { describeGap, type PollReport } from 'stablehooks/catch-up';
import type { Client } from 'stablehooks/client';
import { createForwardingSource } from '../inspector/forwarding-source.js';
import { fromInbox } from '../inspector/inbox-source.js';
import { serveInspector } from '../inspector/local-server.js';
import type { LastReport } from '../inspector/source.js';
import {
  describeAnswer,
  type EndpointAnswer,
  isAccepted,
  isDelivered,
  isWithoutEffect,
  noteUnaccepted,
  outcomeOf,
  statusOf,
  toRowData,
} from '../io/delivery.js';
import { unreachableError } from '../io/errors.js';
import { toFlagWords } from '../io/flag-words.js';
import { createForwarder, type ForwardingAttempt } from '../io/forwarding.js';
import { INBOX_PLACE, type OpenInbox, openInbox } from '../io/inbox.js';
import {
  type ExitCode,
  formatAge,
  formatDuration,
  interruptedExit,
  type Paint,
  type Printer,
  toPlain,
} from '../io/output.js';
import { namePlace } from '../io/place.js';
import { addPollFlags, type PollFlags, toPollOptions } from '../io/poll-flags.js';
import { holdPollLease, POLL_LEASE_MS } from '../io/poll-lease.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  addServiceFlags,
  type CommandContext,
  collectTypes,
  type Moment,
  parseMoment,
  parseUrl,
  parseWait,
  toDate,
} from '../io/settings.js';
import { OWN_INBOX, refuseAppInbox } from '../io/shared-inbox.js';

interface ListenFlags extends PollFlags {
  readonly to: string;
  readonly inbox?: string;
  readonly type?: readonly EventType[];
  readonly interval: number;
  readonly since?: Moment;
  readonly timeout: number;
  readonly inspect?: boolean;
}

export function listenCommand(): Command {
  const command = new Command('listen')
    .requiredOption('--to <url>', 'endpoint to forward to')
    .option('--inbox <location>', `keep the state here: ${INBOX_PLACE}; ${OWN_INBOX} (default: in memory)`)
    .option('--type <type>', 'only this event type; can be repeated (default: all)', collectTypes)
    .option('--since <time>', 'start of the events, when the inbox is new (default: now)', parseMoment)
    .option('--interval <duration>', 'time from one poll to the next', parseWait, 2_000)
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000)
    .option('--inspect', 'serve a page that shows each delivery and the inbox, and print its URL');
  addServiceFlags(addSecretFlags(addPollFlags(command)));
  addExample(command, [
    'stablehooks listen --to http://localhost:3000/hooks --type transfer.settled,transfer.failed',
  ]);
  return addAction(command, listen);
}

async function listen(context: CommandContext<ListenFlags>): Promise<ExitCode> {
  const { flags, settings } = context;
  const url = parseUrl(flags.to, '--to');
  const pollOptions = toPollOptions(flags);
  const client = await settings.client();
  const opened = flags.inbox === undefined ? openMemory() : await openInbox(flags.inbox, { create: true });
  try {
    if (flags.inbox !== undefined) await refuseAppInbox(opened, flags.inbox);
    const { inbox, release } = await holdPollLease(opened);
    let inspection: Inspection | undefined;
    try {
      if (flags.inspect === true) inspection = await inspect(context, inbox);
      return await forward(context, { url, client, inbox, pollOptions, inspection });
    } finally {
      await inspection?.close();
      // Without it the lease lapses; what failed before must be told instead.
      await release().catch(() => undefined);
    }
  } finally {
    await opened.close();
  }
}

function openMemory(): OpenInbox {
  return {
    ...memoryInbox({ logger: { warn: () => undefined, error: () => undefined } }),
    close: () => undefined,
  };
}

/** The page of `--inspect`, and what it is told. */
interface Inspection {
  add(attempt: ForwardingAttempt): void;
  polled(report: PollReport): void;
  close(): Promise<void>;
}

async function inspect(
  { flags, settings, printer }: CommandContext<ListenFlags>,
  inbox: OpenInbox,
): Promise<Inspection> {
  let last: LastReport | undefined;
  const source = createForwardingSource({
    inbox: fromInbox(inbox, { name: namePlace(flags.inbox ?? 'listen'), lastReport: () => last }),
    settings,
    timeoutMs: flags.timeout,
  });
  // A gap is not acknowledged between two polls: the next one would save its own state over it.
  const { url, close } = await serveInspector(source, { port: 0, actions: ['resend', 'requeue', 'prune'] });
  printer.note(`The inspector shows every delivery, and why it failed:\n${url}`);
  return {
    add: source.add,
    polled: (report) => {
      last = { report, at: Date.now() };
    },
    close,
  };
}

interface Listening {
  readonly url: string;
  readonly client: Client;
  readonly inbox: OpenInbox;
  readonly pollOptions: ReturnType<typeof toPollOptions>;
  readonly inspection: Inspection | undefined;
}

async function forward(
  { flags, settings, printer, signal }: CommandContext<ListenFlags>,
  { url, client, inbox, pollOptions, inspection }: Listening,
): Promise<ExitCode> {
  // An inbox that was used before keeps its own.
  const since = toDate(flags.since ?? { agoMs: 0 }, Date.now());
  const { since: stored } = await inbox.pollState();
  const start = new Date(Math.min(stored ?? since.getTime(), since.getTime()));
  let delivered = 0;
  let withoutHandler = 0;
  const attempts = createAttemptLog(printer, url);
  const forwarder = await createForwarder(url, {
    settings,
    client,
    inbox,
    timeoutMs: flags.timeout,
    types: flags.type,
    // What the endpoint has no handler for would be printed again and again.
    isEnd: isTaken,
    poll: {
      ...pollOptions,
      since: start,
      intervalMs: flags.interval,
      leaseMs: POLL_LEASE_MS,
      onGap: (gap) => printer.note(toFlagWords(describeGap(gap), '--interval')),
    },
    onAttempt(attempt) {
      const { answer, nextInMs } = attempt;
      if (isAccepted(answer)) delivered += 1;
      else if (nextInMs === null) withoutHandler += 1;
      attempts.add(attempt);
      inspection?.add(attempt);
    },
  });

  const kept =
    flags.inbox === undefined
      ? 'Nothing is kept after the end (--inbox keeps it).'
      : `The state is in ${flags.inbox}.`;
  printer.note(`Listening since ${start.toISOString()}, forwarding to ${url}. ${kept} Ctrl-C ends it.`);
  const service = createOutage(printer, `The service at ${settings.baseUrl()}`);
  for (let polls = 0; !signal.aborted; polls++) {
    const { report, serviceError, sharedError, inboxError } = await forwarder.poll(signal);
    inspection?.polled(report);
    if (sharedError !== undefined) throw sharedError;
    if (inboxError !== undefined) throw inboxError;
    if (report.problems.some(({ code }) => code === 'ERR_POLL_BUSY' || code === 'ERR_LEASE_LOST')) {
      throw unreachableError('Another process has begun to poll with this inbox, so this one ends.');
    }
    // What is wrong from the beginning is a setting; later problems can pass.
    if (serviceError !== undefined && polls === 0) throw serviceError;
    if (serviceError === undefined) service.answered();
    else service.lost(`${serviceError.message} Trying again every ${formatDuration(flags.interval)}.`);
    await wait(flags.interval, undefined, { signal }).catch(() => undefined);
  }
  const waiting = await countWaiting(inbox);
  const next = flags.inbox === undefined ? '' : ' Run the same command again to continue.';
  const ignored = withoutHandler > 0 ? `, ${withoutHandler} without a handler` : '';
  printer.note(`Stopped: ${delivered} delivered${ignored}, ${waiting} waiting.${next}`);
  return interruptedExit();
}

/**
 * Whether the endpoint has taken the event over, so that it is not sent again: 2xx, also where it has no handler. An
 * event that it dead-letters is answered 2xx, too, and stays in the inbox until a person has requeued it there.
 */
function isTaken(answer: EndpointAnswer): boolean {
  return isDelivered(answer) && outcomeOf(answer) !== 'dead';
}

const WAITING: ReadonlySet<InboxState> = new Set(['received', 'leased', 'failed']);

async function countWaiting(inbox: InboxOperations): Promise<number> {
  const counts = await inbox.count();
  return counts.reduce((sum, { state, count }) => sum + (WAITING.has(state) ? count : 0), 0);
}

/** Prints one line when something stops answering, and one when it answers again. */
function createOutage(printer: Printer, name: string) {
  let lost = false;
  return {
    isLost: () => lost,
    lost(text: string): void {
      if (!lost) printer.note(`${toClock(new Date())}  ${text}`);
      lost = true;
    },
    answered(): void {
      if (lost) printer.note(`${toClock(new Date())}  ${name} answers again.`);
      lost = false;
    },
  };
}

/** Prints attempts, and what to do about some answers. */
function createAttemptLog(printer: Printer, url: string) {
  const endpoint = createOutage(printer, `The endpoint ${url}`);
  const advised = new Set<string>();
  const adviseOnce = (topic: string, advise: () => void) => {
    if (!advised.has(topic)) advise();
    advised.add(topic);
  };
  return {
    add(attempt: ForwardingAttempt): void {
      const { answer } = attempt;
      const isReached = answer.kind !== 'unreachable';
      if (isReached) endpoint.answered();
      // While the endpoint is away, each event is printed once.
      if (isReached || !endpoint.isLost() || attempt.attempt === 1 || printer.json)
        printAttempt(printer, attempt);
      if (!isReached)
        endpoint.lost(`The endpoint ${url}: ${describeAnswer(answer)}. Its events wait and are sent again.`);
      const advice = adviseOn(answer, url);
      if (advice !== undefined) adviseOnce(advice, () => printer.note(advice));
      if (isWithoutEffect(answer)) {
        adviseOnce(outcomeOf(answer) ?? '', () => noteUnaccepted(printer, [answer]));
      }
    },
  };
}

function adviseOn(answer: EndpointAnswer, url: string): string | undefined {
  if (statusOf(answer) === 401) {
    return `The endpoint refuses the signature. \`stablehooks doctor ${url}\` finds out why.`;
  }
  return undefined;
}

/** Prints an attempt in one line, or in two if it failed, is not the first, or would be too long. */
function printAttempt(printer: Printer, { attempt, nextInMs, ...row }: ForwardingAttempt): void {
  const { event, answer } = row;
  const at = new Date();
  const { faint } = printer.paint;
  const head = `${toClock(at)}  ${toPlain(event.type)}  ${toPlain(event.id)}`;
  const words = toPlain(describeAnswer(answer));
  const elapsed = `${answer.elapsedMs} ms`;
  const result = `${paintOf(answer, printer.paint)(words)}  ${faint(elapsed)}`;
  const isShort =
    attempt === 1 && nextInMs === null && `${head}  ${words}  ${elapsed}`.length <= printer.columns;
  const next = nextInMs === null ? '' : `  next in ${formatAge(nextInMs)}`;
  printer.print({
    text: isShort
      ? `${head}  ${result}`
      : `${head}\n          ${result}  ${faint(`attempt ${attempt}${next}`)}`,
    data: { at: at.toISOString(), ...toRowData(row), attempt, nextInMs },
  });
}

function paintOf(answer: EndpointAnswer, { good, bad, doubtful }: Paint): (text: string) => string {
  if (isAccepted(answer)) return good;
  return isWithoutEffect(answer) ? doubtful : bad;
}

/** The local time of day. */
function toClock(at: Date): string {
  return at.toTimeString().slice(0, 8);
}
