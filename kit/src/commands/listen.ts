import { appendFileSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { memoryInbox, parseEvent, type UnknownEvent } from 'stablehooks';
import { describeGap } from 'stablehooks/catch-up';
import type { Inbox, PollState } from 'stablehooks/conformance';
import { printRow } from '../io/delivery.js';
import { type CommandError, toFailure, usageError } from '../io/errors.js';
import { createForwarder } from '../io/forwarding.js';
import { EXIT, type ExitCode } from '../io/output.js';
import {
  addAction,
  addExample,
  addSecretFlags,
  addServiceFlags,
  type CommandContext,
  type Moment,
  parseEventType,
  parseMoment,
  parseUrl,
  parseWait,
  toDate,
} from '../io/settings.js';

interface ListenFlags {
  readonly forwardTo: string;
  readonly types?: string;
  readonly every: number;
  readonly since?: Moment;
  readonly state: string;
  readonly timeout: number;
}

export function listenCommand(): Command {
  const command = new Command('listen')
    .requiredOption('--forward-to <url>', 'endpoint to forward to')
    .option('--types <list>', 'only these event types, separated by commas')
    .option('--every <duration>', 'time from one poll to the next', parseWait, 2_000)
    .option('--since <time>', 'start of the events, when the state file is new (default: now)', parseMoment)
    .option('--state <file>', 'file that keeps the state between runs', '.stablehooks-listen.jsonl')
    .option('--timeout <duration>', 'how long to wait for an answer', parseWait, 10_000);
  addServiceFlags(addSecretFlags(command));
  addExample(command, [
    'stablehooks listen --forward-to http://localhost:3000/hooks --types transfer.settled,transfer.failed',
  ]);
  return addAction(command, listen);
}

async function listen({ flags, settings, printer, signal }: CommandContext<ListenFlags>): Promise<ExitCode> {
  const url = parseUrl(flags.forwardTo, '--forward-to');
  const types = flags.types?.split(',').map((type) => parseEventType(type.trim()));
  const client = await settings.client();
  const since = toDate(flags.since ?? { agoMs: 0 }, Date.now());
  const { inbox, startMs } = await openJournal(flags.state, since.getTime());
  let forwarded = 0;
  const forwarder = await createForwarder(url, {
    settings,
    client,
    inbox,
    timeoutMs: flags.timeout,
    types,
    startMs,
    // It tries again for as long as it runs.
    maxAttempts: 2 ** 31 - 1,
    poll: {
      since: new Date(startMs),
      onGap: (gap) => printer.note(describeGap(gap)),
    },
    onAttempt(row) {
      forwarded += 1;
      printRow(printer, row);
    },
  });

  printer.note(`Listening since ${new Date(startMs).toISOString()}, forwarding to ${url}. Ctrl-C ends it.`);
  for (let problem = '', polls = 0; !signal.aborted; polls++) {
    const report = await forwarder.pollOnce(signal);
    // A file that cannot be written and a failed first poll end the command; later problems may pass.
    if (forwarder.inboxError() !== undefined) throw forwarder.inboxError();
    let found = '';
    try {
      if (!signal.aborted) forwarder.assertPolled(report);
    } catch (error) {
      if (polls === 0) throw error;
      found = toFailure(error).message;
    }
    if (found !== problem && found !== '') printer.note(`${found} Trying again every ${flags.every} ms.`);
    problem = found;
    await wait(flags.every, undefined, { signal }).catch(() => undefined);
  }
  printer.note(
    `Stopped after ${forwarded} deliveries. The state is saved in ${flags.state}: run the command again to continue.`,
  );
  return EXIT.good;
}

/** One line of the state file. */
type JournalEntry =
  | { readonly startMs: number }
  | { readonly poll: PollState }
  | { readonly event: UnknownEvent }
  | { readonly done: string };

/** An inbox in memory that also writes each step to a file of JSON lines. */
interface Journal {
  readonly inbox: Inbox;
  /** The start of the events, in ms since 1970, as given when the file was created. */
  readonly startMs: number;
}

/** How many events are remembered, which is the default capacity of the memory inbox. */
const MAX_EVENTS = 100_000;

/** Payloads are private: other users of this machine must not read them. */
const PRIVATE = { mode: 0o600 } as const;

/** The holder of the poll lease while the file is replayed. */
const REPLAYING = { holder: 'journal', leaseMs: 0 } as const;

/**
 * Opens the state file, or creates it.
 *
 * After a restart, events that were not accepted are tried again, and accepted ones are not sent twice while their
 * ids are among the last {@link MAX_EVENTS}. A line is written before its step is acknowledged, so a full disk
 * ends the command and loses nothing.
 *
 * @throws {CommandError} exit 2 when the file is of another kind, and leaves it unchanged; or the system's error.
 */
async function openJournal(path: string, startMs: number): Promise<Journal> {
  const found = statSync(path, { throwIfNoEntry: false });
  // A device or a folder must not be read or replaced.
  if (found !== undefined && !found.isFile()) throw notAStateFile(path);
  const entries = found === undefined ? [] : readEntries(path);
  const start = entries.find((entry) => 'startMs' in entry) ?? { startMs };
  const kept = compact(entries);
  replaceFile(path, [start, ...kept]);

  const inbox = memoryInbox({ capacity: MAX_EVENTS });
  for (const entry of kept) await replay(inbox, entry);
  let written = await inbox.pollState();
  const append = (entry: JournalEntry) => appendFileSync(path, toLine(entry), PRIVATE);

  return {
    startMs: start.startMs,
    inbox: {
      ...inbox,
      // Each step is in the file, so that a restart forgets nothing.
      durable: true,
      async record(events, options) {
        const results = await inbox.record(events, options);
        for (const [index, event] of events.entries()) if (results[index] === 'new') append({ event });
        return results;
      },
      async complete(lease) {
        const completed = await inbox.complete(lease);
        if (completed) append({ done: lease.id });
        return completed;
      },
      async savePoll(poll, options) {
        const saved = await inbox.savePoll(poll, options);
        if (saved && isWorthWriting(poll, written)) {
          append({ poll });
          written = poll;
        }
        return saved;
      },
    },
  };
}

/** What moves at every poll is written once a minute, so that the file does not grow with every poll. */
function isWorthWriting(poll: PollState, written: PollState): boolean {
  if (poll.since !== written.since) return true;
  // The end of an open gap can move with the watermark.
  const toKey = ({ gaps }: PollState) =>
    JSON.stringify(gaps.map((gap) => ({ ...gap, until: Object.keys(gap.until) })));
  if (toKey(poll) !== toKey(written)) return true;
  return (poll.watermark ?? 0) - (written.watermark ?? 0) >= 60_000;
}

function readEntries(path: string): readonly JournalEntry[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  const entries = lines.flatMap((line, index) => {
    if (line === '') return [];
    const entry = readEntry(line);
    if (entry !== undefined) return [entry];
    // A process that died while writing leaves half a line at the end, and only there.
    if (index === lines.length - 1 && index > 0) return [];
    throw notAStateFile(path);
  });
  const [first] = entries;
  if (first !== undefined && !('startMs' in first)) throw notAStateFile(path);
  return entries;
}

/** Parses a line; `undefined` if it is not an entry. Other files have one JSON object per line, too. */
function readEntry(line: string): JournalEntry | undefined {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== 'object' || value === null) return undefined;
    const [[name, content] = [], ...more] = Object.entries(value);
    const known = name !== undefined && more.length === 0 && CHECKS[name]?.(content) === true;
    return known ? (value as JournalEntry) : undefined;
  } catch {
    return undefined;
  }
}

/** Checks the content of each kind of entry. */
const CHECKS: Readonly<Record<string, (content: unknown) => boolean>> = {
  startMs: Number.isFinite,
  poll: isPoll,
  event: (content) => parseEvent(Buffer.from(JSON.stringify(content))) !== undefined,
  done: (content) => typeof content === 'string',
};

function isPoll(content: unknown): boolean {
  if (typeof content !== 'object' || content === null || !('watermark' in content)) return false;
  const { since, watermark, gaps, limit, oldest } = toPollState(content as Partial<PollState>);
  return (
    [since, watermark, oldest?.at ?? null].every((value) => value === null || Number.isFinite(value)) &&
    Number.isFinite(limit) &&
    Array.isArray(gaps) &&
    gaps.every((gap: unknown) => typeof gap === 'object' && gap !== null && 'until' in gap)
  );
}

/** A state of this release: files of earlier releases have fewer fields, and one that is gone. */
function toPollState(entry: Partial<PollState>): PollState {
  const { since = null, watermark = null, gaps = [], limit = 0, oldest = null } = entry;
  return { since, watermark, gaps, limit, oldest };
}

function notAStateFile(path: string): CommandError {
  return usageError(`${path} is not a state file of \`listen\`. Choose another file with --state.`);
}

/** Keeps the last watermark, the events that are not done, and the newest ids of those that are. */
function compact(entries: readonly JournalEntry[]): readonly JournalEntry[] {
  const done = new Set(entries.flatMap((entry) => ('done' in entry ? [entry.done] : [])));
  const poll = entries.findLast((entry) => 'poll' in entry);
  const open = entries.filter((entry) => 'event' in entry && !done.has(entry.event.id));
  const forgotten = Math.max(0, open.length + done.size - MAX_EVENTS);
  const ids = [...done].slice(forgotten).map((id) => ({ done: id }));
  return [...(poll === undefined ? [] : [poll]), ...open, ...ids];
}

async function replay(inbox: ReturnType<typeof memoryInbox>, entry: JournalEntry): Promise<void> {
  if ('event' in entry) await inbox.record([entry.event], { dueInMs: 0, origin: 'pull' });
  if ('done' in entry) {
    // Only the id matters from now on.
    const event = { id: entry.done, type: '', created_at: '', payload: {} };
    const claim = await inbox.claim(event, { leaseMs: 1, origin: 'pull' });
    if (claim.state === 'claimed') await inbox.complete(claim.lease);
  }
  if ('poll' in entry) {
    await inbox.acquirePoll(REPLAYING);
    await inbox.savePoll(toPollState(entry.poll), REPLAYING);
  }
}

/** Replaces the file in one step, so that it is never half written. */
function replaceFile(path: string, entries: readonly JournalEntry[]): void {
  writeFileSync(`${path}.new`, entries.map(toLine).join(''), PRIVATE);
  renameSync(`${path}.new`, path);
}

function toLine(entry: JournalEntry): string {
  return `${JSON.stringify(entry)}\n`;
}
