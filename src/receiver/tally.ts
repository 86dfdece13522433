import type { UnknownEvent } from '../core/events.js';
import { log } from '../core/log.js';
import type { Inbox, InboxOperations, Logger } from '../core/ports.js';
import { setBackgroundTimeout } from '../core/runtime.js';
import { decodeSignature } from '../core/signature.js';
import type { ReceiverSettings } from './options.js';
import type { Outcome } from './outcome.js';
import type { WebhookRequest } from './request.js';

export const TALLY_NOTE = 'tally';

const WRITE_MS = 10_000;

export const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Counts by key: `<start of the hour or day, in epoch ms> <error code or event type>`. */
type Counts = Readonly<Record<string, number>>;

/** Counts from all processes that share an inbox. Times are in epoch ms, as measured by each process's clock. */
export interface TallyNote {
  /** Refused deliveries in this hour and the previous hour, by hour and error code. */
  readonly refused: Counts;
  /** When the last 5 deliveries with a well-formed signature were refused, oldest first. */
  readonly refusedAt: readonly number[];
  /** When a process last accepted a delivery after it had refused one. */
  readonly genuineAt: number;
  /** New events that had no handler on this day and the previous day, by day and type. */
  readonly ignored: Counts;
}

export const EMPTY_TALLY: TallyNote = { refused: {}, refusedAt: [], genuineAt: 0, ignored: {} };

/** If this many deliveries are refused and none is accepted, push is reported as broken. */
export const MANY = 5;

/** These errors do not count as refusals, for example because the event is stored or the process is stopping. */
const STORED = /^ERR_(HANDLER|PAYLOAD|EVENT_BUSY|EVENT_NOT|KEY|LEASE|RECEIVER_CLOSED|METHOD)/;

/** Shared by all receivers, because a process may create many of them. */
const NAMED = new WeakMap<Logger, Set<string>>();

interface TallySettings extends Pick<ReceiverSettings, 'inbox' | 'runtime' | 'signature'> {
  readonly logger: Logger;
}

export class Tally {
  readonly #settings: TallySettings;
  #counted: TallyNote = EMPTY_TALLY;
  #hasRefused = false;
  #timer: unknown;
  /** For each type, the earliest time at which a duplicate is looked up again. */
  readonly #lookAt = new Map<string, number>();
  #writtenAt = Number.NEGATIVE_INFINITY;

  constructor(settings: TallySettings) {
    this.#settings = settings;
  }

  /** Counts a refused delivery, and the first delivery that is accepted after it. */
  delivery({ error }: Outcome, request: WebhookRequest): void {
    if (error === undefined && !this.#hasRefused) return;
    // `stablehooks doctor` sends deliveries that must be refused.
    if (headerOf(request, 'user-agent') === 'stablehooks-doctor') return;
    const isSigned = error !== undefined && !STORED.test(error.code) && this.#isSigned(request);
    if (error !== undefined && !isSigned && error.code !== 'ERR_SIGNATURE_MALFORMED') return;
    const now = this.#settings.runtime.now();
    this.#hasRefused = error !== undefined;
    if (error === undefined) this.#add({ genuineAt: now });
    else
      this.#add({
        refused: { [`${now - (now % HOUR_MS)} ${error.code}`]: 1 },
        refusedAt: isSigned ? [now] : [],
      });
  }

  ignored(type: string): void {
    const { runtime, logger } = this.#settings;
    const now = runtime.now();
    this.#add({ ignored: { [`${now - (now % DAY_MS)} ${type}`]: 1 } });
    if (!isNews(logger, type)) return;
    const line = `this process has no handler for ${type}, so it ignores events of this type. Add a handler, even one that does nothing. If another process should run the ignored events, use \`stablehooks inbox requeue --ignored\`.`;
    log(logger, 'warn', line);
  }

  async duplicate({ id, type }: UnknownEvent): Promise<void> {
    const { inbox, logger, runtime } = this.#settings;
    const now = runtime.elapsed();
    if (now < (this.#lookAt.get(type) ?? 0)) return;
    this.#lookAt.set(type, now + WRITE_MS);
    try {
      const record = await (inbox as Partial<InboxOperations>).find?.(id);
      if (!record?.ignored || !isNews(logger, `duplicate ${type}`)) return;
    } catch {
      return;
    }
    const line = `${id} is done, but no handler ran: another process that shares this inbox had no handler for ${type} and ignored the event. Give each app its own inbox (\`schema\` or \`prefix\`), and give all processes of an app the same handlers. To run the ignored events, use \`stablehooks inbox requeue --ignored\`.`;
    log(logger, 'error', line);
  }

  /** Bots do not send a well-formed signature. */
  #isSigned(request: WebhookRequest): boolean {
    const { signature } = this.#settings;
    try {
      return decodeSignature(headerOf(request, signature.header), signature).length > 0;
    } catch {
      return false;
    }
  }

  #add(counted: Partial<TallyNote>): void {
    const { runtime } = this.#settings;
    const now = runtime.now();
    this.#counted = sum(this.#counted, { ...EMPTY_TALLY, ...counted }, now);
    const waitMs = Math.min(WRITE_MS, Math.max(0, this.#writtenAt + WRITE_MS - now));
    this.#timer ??= setBackgroundTimeout(runtime, () => void this.write(), waitMs);
  }

  /** If the inbox fails, the counts are kept for the next write. */
  async write(): Promise<void> {
    const { inbox, runtime } = this.#settings;
    runtime.clearTimeout(this.#timer);
    this.#timer = undefined;
    const counted = this.#counted;
    if (counted === EMPTY_TALLY) return;
    this.#counted = EMPTY_TALLY;
    const now = runtime.now();
    this.#writtenAt = now;
    const holder = runtime.uuid();
    try {
      // Another process is writing the note now.
      if (!(await inbox.leaseNote(TALLY_NOTE, { holder, leaseMs: WRITE_MS }))) return this.#add(counted);
      const note = JSON.stringify(sum(await readTally(inbox), counted, now));
      if (!(await inbox.writeNote(TALLY_NOTE, note, { holder }))) this.#add(counted);
      await inbox.leaseNote(TALLY_NOTE, { holder, leaseMs: 0 });
    } catch {
      this.#counted = sum(counted, this.#counted, now);
    }
  }
}

function isNews(logger: Logger, what: string): boolean {
  const named = NAMED.get(logger) ?? new Set();
  NAMED.set(logger, named);
  return named.size < named.add(what).size;
}

function headerOf(request: WebhookRequest, name: string): string | null | undefined {
  try {
    return request.header(name);
  } catch {
    return undefined;
  }
}

export async function readTally(inbox: Pick<Inbox<unknown>, 'readNote'>): Promise<TallyNote> {
  const note = await inbox.readNote(TALLY_NOTE);
  return note === null ? EMPTY_TALLY : (JSON.parse(note) as TallyNote);
}

function sum(a: TallyNote, b: TallyNote, now: number): TallyNote {
  return {
    refused: sumCounts(a.refused, b.refused, now - 2 * HOUR_MS),
    refusedAt: [...a.refusedAt, ...b.refusedAt].sort((one, other) => one - other).slice(-MANY),
    genuineAt: Math.max(a.genuineAt, b.genuineAt),
    ignored: sumCounts(a.ignored, b.ignored, now - 2 * DAY_MS),
  };
}

function sumCounts(a: Counts, b: Counts, since: number): Counts {
  const counts: Record<string, number> = { ...a };
  for (const [key, count] of Object.entries(b)) counts[key] = (counts[key] ?? 0) + count;
  return Object.fromEntries(Object.entries(counts).filter(([key]) => Number.parseInt(key, 10) > since));
}
