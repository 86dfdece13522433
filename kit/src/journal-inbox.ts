/** The inbox of `listen`: in memory, and written along in a file of JSON lines, with nothing to install. */
import { appendFileSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { memoryInbox, parseEvent, type UnknownEvent } from 'stablehooks';
import type { Inbox, PollState } from 'stablehooks/conformance';
import { type CommandError, usageError } from './failure.js';

/** What a line records. */
type Entry =
  | { readonly startMs: number }
  | { readonly poll: PollState }
  | { readonly event: UnknownEvent }
  | { readonly done: string };

/** An inbox with a file behind it. */
interface Journal {
  readonly inbox: Inbox;
  /** Since when events are listened for, epoch ms: as it was given when the file was made. */
  readonly startMs: number;
}

/** How many events are remembered, as many as an inbox in memory holds by default. */
const KEPT_EVENTS = 100_000;

/** Events hold what is nobody else's business on this machine. */
const PRIVATE = { mode: 0o600 } as const;

/** Claims in the file's name while it is read; no process is meant. */
const READING = { holder: 'journal', leaseMs: 0 } as const;

/**
 * Opens the file, or makes it.
 *
 * It keeps the place: what was not taken is tried again, and what was is not sent twice, as long as its id is
 * among the last {@link KEPT_EVENTS}. A line is written before its step is answered, so a full disk stops the
 * listening and loses nothing.
 *
 * @throws {CommandError} exit 2 when the file is another kind of file, which is left as it is; or the system's
 * own error.
 */
export async function openJournal(path: string, { startMs }: { readonly startMs: number }): Promise<Journal> {
  const found = statSync(path, { throwIfNoEntry: false });
  // A device or a folder is neither read nor replaced.
  if (found !== undefined && !found.isFile()) throw notAPlace(path);
  const entries = found === undefined ? [] : readEntries(path);
  const start = entries.find((entry) => 'startMs' in entry) ?? { startMs };
  const kept = compact(entries);
  rewrite(path, [start, ...kept]);

  const inbox = memoryInbox({ capacity: KEPT_EVENTS });
  for (const entry of kept) await replay(inbox, entry);
  let written: PollState = { watermark: null, largest: 0 };
  const append = (entry: Entry) => appendFileSync(path, toLine(entry), PRIVATE);

  return {
    startMs: start.startMs,
    inbox: {
      ...inbox,
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
        if (saved && isWorthALine(poll, written)) {
          append({ poll });
          written = poll;
        }
        return saved;
      },
    },
  };
}

/** A watermark that is a minute old is as good, and the file does not grow with every poll. */
function isWorthALine(poll: PollState, written: PollState): boolean {
  return poll.largest !== written.largest || (poll.watermark ?? 0) - (written.watermark ?? 0) >= 60_000;
}

function readEntries(path: string): readonly Entry[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  const entries = lines.flatMap((line, index) => {
    if (line === '') return [];
    const entry = readEntry(line);
    if (entry !== undefined) return [entry];
    // A process that died while it wrote leaves half a line at the end, and only there.
    if (index === lines.length - 1 && index > 0) return [];
    throw notAPlace(path);
  });
  const [first] = entries;
  if (first !== undefined && !('startMs' in first)) throw notAPlace(path);
  return entries;
}

/** The entry, or `undefined` where the line is none: many a file is one JSON object a line. */
function readEntry(line: string): Entry | undefined {
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== 'object' || value === null) return undefined;
    const [[name, content] = [], ...more] = Object.entries(value);
    const known = name !== undefined && more.length === 0 && CONTENTS[name]?.(content) === true;
    return known ? (value as Entry) : undefined;
  } catch {
    return undefined;
  }
}

/** What each kind of entry holds. */
const CONTENTS: Readonly<Record<string, (content: unknown) => boolean>> = {
  startMs: Number.isFinite,
  poll: isPoll,
  event: (content) => parseEvent(Buffer.from(JSON.stringify(content))) !== undefined,
  done: (content) => typeof content === 'string',
};

function isPoll(content: unknown): boolean {
  if (typeof content !== 'object' || content === null) return false;
  const { watermark, largest } = content as Partial<PollState>;
  return Number.isFinite(largest) && (watermark === null || Number.isFinite(watermark));
}

function notAPlace(path: string): CommandError {
  return usageError(`${path} is not a file that \`listen\` keeps its place in. Choose another with --state.`);
}

/** What still matters: the last watermark, what is not done, and as many ids of what is as are remembered. */
function compact(entries: readonly Entry[]): readonly Entry[] {
  const done = new Set(entries.flatMap((entry) => ('done' in entry ? [entry.done] : [])));
  const poll = entries.findLast((entry) => 'poll' in entry);
  const open = entries.filter((entry) => 'event' in entry && !done.has(entry.event.id));
  const forgotten = Math.max(0, open.length + done.size - KEPT_EVENTS);
  const ids = [...done].slice(forgotten).map((id) => ({ done: id }));
  return [...(poll === undefined ? [] : [poll]), ...open, ...ids];
}

async function replay(inbox: ReturnType<typeof memoryInbox>, entry: Entry): Promise<void> {
  if ('event' in entry) await inbox.record([entry.event], { dueInMs: 0, origin: 'pull' });
  if ('done' in entry) {
    // Only the id is looked at from now on.
    const event = { id: entry.done, type: '', created_at: '', payload: {} };
    const claim = await inbox.claim(event, { leaseMs: 1, origin: 'pull' });
    if (claim.state === 'claimed') await inbox.complete(claim.lease);
  }
  if ('poll' in entry) {
    await inbox.acquirePoll(READING);
    await inbox.savePoll(entry.poll, READING);
  }
}

/** Whole and in one step: a file that is half written would be no place at all. */
function rewrite(path: string, entries: readonly Entry[]): void {
  writeFileSync(`${path}.new`, entries.map(toLine).join(''), PRIVATE);
  renameSync(`${path}.new`, path);
}

function toLine(entry: Entry): string {
  return `${JSON.stringify(entry)}\n`;
}
