import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { type EventType, type InboxState, memoryInbox } from 'stablehooks';
import { describeGap, type PollReport, readPollState } from 'stablehooks/catch-up';
import type { Client } from 'stablehooks/client';
import { createForwardingSource } from '../inspector/forwarding-source.js';
import { fromInbox } from '../inspector/inbox-source.js';
import { serveInspector } from '../inspector/local-server.js';
import type { LastReport } from '../inspector/source.js';
import { describeAnswer, isDelivered, isWithoutEffect, outcomeOf, statusOf } from '../io/answer.js';
import { noteUnaccepted, toRowData } from '../io/delivery-rows.js';
import { unreachableError } from '../io/errors.js';
import { createForwarder, type ForwardingAttempt } from '../io/forwarding.js';
import {
  addInboxFlags,
  hasInbox,
  INBOX_PLACE,
  type InboxFlags,
  type OpenInbox,
  openOwnInbox,
} from '../io/inbox.js';
import {
  type ExitCode,
  formatAge,
  formatClock,
  formatDuration,
  interruptedExit,
  type Printer,
  toPlain,
} from '../io/output.js';
import { nameEndpoint, namePlace } from '../io/place.js';
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
import { describeTypes, listUndelivered } from '../io/undelivered.js';

/** In ms. If this process is killed during a poll, no other process can poll until this time has passed. */
const POLL_LEASE_MS = 10_000;

interface ListenFlags extends PollFlags, Partial<InboxFlags> {
  readonly to: string;
  readonly type?: readonly EventType[];
  readonly interval: number;
  readonly since?: Moment;
  readonly timeout: number;
  readonly inspect?: boolean;
}

export function listenCommand(): Command {
  const command = addInboxFlags(
    new Command('listen').requiredOption('--to <url>', 'endpoint to forward events to', parseEndpoint),
    {
      about: `where to keep the state: ${INBOX_PLACE}; can be your app's inbox (default: in memory)`,
      required: false,
    },
  )
    .option('--type <type>', 'forward only events of this type; can be repeated (default: all)', collectTypes)
    .option(
      '--since <time>',
      'ignore events created before this start date; a used inbox keeps its own start date (default: now)',
      parseMoment,
    )
    .option('--interval <duration>', 'time between polls', parseWait, 2_000)
    .option('--timeout <duration>', 'how long to wait for a response', parseWait, 10_000)
    .option('--inspect', 'serve a page that shows each delivery and the inbox, and print its URL');
  addServiceFlags(addSecretFlags(addPollFlags(command)));
  return addAction(command, listen, [
    'stablehooks listen --to http://localhost:3000/hooks --type transfer.settled,transfer.failed',
  ]);
}

async function listen(context: CommandContext<ListenFlags>) {
  const { flags, settings } = context;
  const url = flags.to;
  const pollOptions = toPollOptions(flags);
  const client = await settings.client();
  const inbox: OpenInbox = hasInbox(flags)
    ? await openOwnInbox(flags)
    : { ...memoryInbox(), isOwn: true, close: () => undefined };
  let inspection: Inspection | undefined;
  try {
    if (flags.inspect === true) inspection = await inspect(context, inbox);
    return await forward(context, { url, client, inbox, pollOptions, inspection });
  } finally {
    await inspection?.close();
    await inbox.close();
  }
}

type Inspection = Awaited<ReturnType<typeof inspect>>;

async function inspect({ flags, settings, printer }: CommandContext<ListenFlags>, inbox: OpenInbox) {
  let last: LastReport | undefined;
  const shown = fromInbox(inbox, { name: namePlace(flags.inbox ?? 'listen'), lastReport: () => last });
  const source = createForwardingSource({ inbox: shown, settings, timeoutMs: flags.timeout });
  const { url, close } = await serveInspector(source, { port: 0 });
  printer.note(`The inspector shows every delivery and why it failed:\n${url}`);
  return {
    add: source.add,
    polled: (report: PollReport) => {
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
  // An inbox that has been used before keeps its own start date.
  const since = toDate(flags.since ?? { agoMs: 0 }, Date.now());
  const { since: stored } = await readPollState(inbox);
  const start = new Date(Math.min(stored ?? since.getTime(), since.getTime()));
  let delivered = 0;
  const shownUrl = nameEndpoint(url);
  const attempts = createAttemptLog(printer, shownUrl);
  const forwarder = await createForwarder(url, {
    settings,
    client,
    inbox,
    timeoutMs: flags.timeout,
    types: flags.type,
    poll: {
      ...pollOptions,
      since: start,
      intervalMs: flags.interval,
      leaseMs: POLL_LEASE_MS,
      onGap: (gap) => printer.note(describeGap(gap)),
    },
    onAttempt(attempt) {
      if (attempt.nextInMs === null) delivered += 1;
      attempts.add(attempt);
      inspection?.add(attempt);
    },
  });

  const kept =
    flags.inbox === undefined
      ? 'Delivery state is kept in memory and lost when this command exits. Pass --inbox to keep it.'
      : `The state is in ${flags.inbox}.`;
  printer.note(
    `Listening since ${start.toISOString()}, forwarding to ${shownUrl}. ${kept} Press Ctrl-C to stop.`,
  );
  const service = createOutage(printer, `The service at ${settings.baseUrl()}`);
  for (let polls = 0; !signal.aborted; polls++) {
    const { report, serviceError, inboxError } = await forwarder.poll(signal);
    inspection?.polled(report);
    if (inboxError !== undefined) throw inboxError;
    if (report.problems.some(({ code }) => code === 'ERR_POLL_BUSY' || code === 'ERR_LEASE_LOST')) {
      throw unreachableError(
        `Another process is polling with this inbox, so this command stops. If that process was killed, try again in ${POLL_LEASE_MS / 1_000} s.`,
      );
    }
    // If the first poll fails, a setting is wrong. Later failures can be temporary.
    if (serviceError !== undefined && polls === 0) throw serviceError;
    if (serviceError === undefined) service.answered();
    else service.lost(`${serviceError.message} Retrying every ${formatDuration(flags.interval)}.`);
    await wait(flags.interval, undefined, { signal }).catch(() => undefined);
  }
  const { undelivered, leftOut } = await listUndelivered(inbox, flags.type);
  const ignored = undelivered.filter((event) => event.ignored).length;
  const waiting = undelivered.filter((event) => !event.ignored && WAITING.has(event.state)).length;
  const counts = [
    `${delivered} delivered`,
    ignored > 0 && `${ignored} without a handler`,
    `${waiting} waiting`,
    leftOut.length > 0 && `${describeTypes(leftOut)} left out (--type)`,
  ];
  const next = flags.inbox === undefined ? '' : ' Run the same command again to continue.';
  printer.note(`Stopped: ${counts.filter(Boolean).join(', ')}.${next}`);
  return interruptedExit();
}

const WAITING: ReadonlySet<InboxState> = new Set(['received', 'leased', 'failed']);

function createOutage(printer: Printer, name: string) {
  let lost = false;
  return {
    isLost: () => lost,
    lost(text: string): void {
      if (!lost) printer.note(`${formatClock(new Date())}  ${text}`);
      lost = true;
    },
    answered(): void {
      if (lost) printer.note(`${formatClock(new Date())}  ${name} is responding again.`);
      lost = false;
    },
  };
}

function createAttemptLog(printer: Printer, url: string) {
  const endpoint = createOutage(printer, `The endpoint ${url}`);
  const advised = new Set<string>();
  const unhandled = new Set<string>();
  const adviseOnce = (topic: string, advise: () => void) => {
    if (!advised.has(topic)) advise();
    advised.add(topic);
  };
  return {
    add(attempt: ForwardingAttempt): void {
      const { answer } = attempt;
      const isReached = answer.kind !== 'unreachable';
      if (isReached) endpoint.answered();
      const isRepeated = isUnhandled(attempt) && unhandled.has(attempt.event.id);
      if (isUnhandled(attempt)) unhandled.add(attempt.event.id);
      // While the endpoint does not respond or has no handler, each event is printed only once.
      const isNews = isReached ? !isRepeated : !endpoint.isLost() || attempt.attempt === 1;
      if (isNews || printer.json) printAttempt(printer, attempt);
      if (!isReached)
        endpoint.lost(
          `The endpoint ${url}: ${describeAnswer(answer)}. Events are kept and will be sent again.`,
        );
      if (statusOf(answer) === 401) {
        const doctor = `To find out why, run \`stablehooks doctor ${url}\`.`;
        adviseOnce('401', () => printer.note(`The endpoint rejects the signature. ${doctor}`));
      }
      if (isWithoutEffect(answer)) {
        adviseOnce(outcomeOf(answer) ?? '', () => noteUnaccepted(printer, [answer]));
      }
    },
  };
}

function isUnhandled({ answer, nextInMs }: ForwardingAttempt): boolean {
  return nextInMs !== null && isDelivered(answer) && outcomeOf(answer) !== 'dead';
}

function printAttempt(printer: Printer, { attempt, nextInMs, ...delivery }: ForwardingAttempt): void {
  const { event, answer } = delivery;
  const at = new Date();
  const { good, bad, doubtful, faint } = printer.paint;
  const failed = isDelivered(answer) ? doubtful : bad;
  const words = (nextInMs === null ? good : failed)(toPlain(describeAnswer(answer)));
  const row = [
    formatClock(at),
    toPlain(event.type),
    toPlain(event.id),
    words,
    faint(`${answer.elapsedMs} ms`),
  ];
  if (attempt > 1 || nextInMs !== null) row.push(faint(`attempt ${attempt}`));
  if (nextInMs !== null) row.push(faint(`next in ${formatAge(nextInMs)}`));
  printer.print({
    text: { whole: row.join('  ') },
    data: { at: at.toISOString(), ...toRowData(delivery), attempt, nextInMs },
  });
}
