import { LIST_RULES, type PollerOptions } from '../catch-up/options.js';
import { type GapReason, type PollState, readPollState } from '../catch-up/state.js';
import { ConfigError } from '../core/errors.js';
import {
  createdAtMs,
  EVENT_TYPES,
  type EventType,
  isDateTime,
  isEventType,
  isTestId,
  type UnknownEvent,
} from '../core/events.js';
import { abortSignal, func, inboxWith, integer, readOptions, required, rule } from '../core/options.js';
import type { Inbox, InboxOperations, InboxRecord } from '../core/ports.js';
import { toRuntime } from '../core/runtime.js';
import { orInboxFailed } from './options.js';
import { OWED_NOTE, type OwedCounts, type OwedNote } from './owed-note.js';
import {
  type Ending,
  judgeMovement,
  type OwedFacts,
  type OwedMovement,
  type OwedVerdict,
  type Pending,
} from './owed-verdict.js';
import { inPages, PAGE_SIZE, takeTurn } from './pages.js';
import { findUnproven } from './proof.js';
import { placeInList } from './read-inbox.js';
import { type ReadList, readList } from './read-list.js';
import { recordPages } from './record-pages.js';

/** A movement that your app has begun and that has not ended yet. */
export interface PendingMovement {
  /** The key that {@link OwedOptions.keyOf} returns for the event that ends the movement. */
  readonly key: string | number | bigint;
  /** When the movement began: a `Date`, or an RFC 3339 date-time with its UTC offset. */
  readonly since: Date | string;
}

type Rows = AsyncIterable<PendingMovement> | Iterable<PendingMovement>;

/** Options for {@link findOwed}. Use the same values for `lagMs`, `disorderMs` and `listMax` as in your poller. */
export interface OwedOptions
  extends Pick<
    PollerOptions,
    'client' | 'limit' | 'maxLimit' | 'listMax' | 'lagMs' | 'disorderMs' | 'runtime'
  > {
  /** The inbox that your app's receivers use. */
  readonly inbox: Pick<Inbox<unknown>, 'readNote' | 'writeNote'> & Pick<InboxOperations, 'find' | 'list'>;
  /** Returns pending movements, preferably oldest first to save inbox reads. They are read once, 100,000 at a time. */
  readonly pending: () => Rows | Promise<Rows>;
  /** Returns the key of the movement that an event is about. Only a string, number or bigint counts as a key. */
  readonly keyOf: (event: UnknownEvent) => unknown;
  /** The event types that end a movement. */
  readonly terminal: readonly EventType[];
  /** How long a movement can take, in ms, before it is overdue. Only overdue movements are judged. */
  readonly withinMs: number;
  /** Called with each judged movement and awaited. If the function throws or rejects, the run ends. @default none */
  readonly onMovement?: ((movement: OwedMovement) => void | Promise<void>) | undefined;
  /** Ends the run early when aborted. The promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** The result of {@link findOwed}, as plain data. */
export interface OwedResult {
  /**
   * How many movements have each verdict. `pending` counts all movements. `early` counts the movements that began less than
   * `withinMs` ago. `settling` counts the movements whose event was done less than `lagMs` ago. Settling movements have no
   * verdict, because your app may have read them before that event was done.
   */
  readonly counts: OwedCounts;
  /** The first 1,000 movements of each verdict. */
  readonly movements: readonly OwedMovement[];
}

const CHUNK = 100_000;

const MAX_MOVEMENTS = 1_000;

/**
 * Looks for the event that ends each overdue movement, first in the inbox and then in the service's event list. The verdict
 * is `owed` only if that list is proven complete for the terminal types, from when the movement began until `lagMs` before
 * now. `findOwed` runs no handlers. It stores the counts in the inbox, and `health` reports them in its `owed` check.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or a row of `pending` is invalid.
 * @throws {StablehooksError} `ERR_INBOX_FAILED` when the inbox fails.
 * @throws the client's error when the service's list could not be read, any error that `pending`, `keyOf` or `onMovement`
 * throws, and the signal's reason when `signal` aborts.
 *
 * @example
 * ```ts
 * const { counts, movements } = await findOwed({
 *   inbox, client,
 *   pending: async () => (await pool.query('SELECT id AS key, begun_at AS since FROM payouts WHERE ended_at IS NULL')).rows,
 *   keyOf: (event) => event.payload['transfer_id'],
 *   terminal: ['transfer.settled', 'transfer.failed'],
 *   withinMs: 15 * 60_000,
 * });
 * ```
 */
export async function findOwed(options: OwedOptions): Promise<OwedResult> {
  const settings = toSettings(options);
  const { inbox, pending, withinMs, runtime, signal } = settings;
  const at = runtime.now();
  const state = await readPollState(inbox);
  const search: Search = {
    settings,
    at,
    state,
    first: await inbox.list({ limit: PAGE_SIZE }),
    list: undefined,
  };
  const counts = { pending: 0, early: 0, settling: 0, ...NO_VERDICTS };
  const movements: OwedMovement[] = [];
  const overdue = async function* (): AsyncGenerator<Pending> {
    for await (const row of await pending()) {
      counts.pending += 1;
      const movement = toPending(row, counts.pending);
      if (movement.since + withinMs <= at) yield movement;
      else counts.early += 1;
    }
  };
  for await (const chunk of inPages(overdue(), { runtime, signal }, CHUNK)) {
    const facts = await readChunk(chunk, search);
    for (const movement of chunk) {
      const judged = judgeMovement(movement, facts);
      counts[judged === null ? 'settling' : judged.verdict] += 1;
      if (judged === null) continue;
      if (counts[judged.verdict] <= MAX_MOVEMENTS) movements.push(judged);
      await settings.onMovement(judged);
    }
  }
  const note: OwedNote = { at, counts };
  await inbox.writeNote(OWED_NOTE, JSON.stringify(note));
  return { counts, movements };
}

const NO_VERDICTS: Record<OwedVerdict, number> = {
  'arrived-not-booked': 0,
  'listed-not-received': 0,
  owed: 0,
  'not-proven': 0,
};

type OwedSettings = ReturnType<typeof toSettings>;

function toSettings(options: OwedOptions) {
  const settings = readOptions('findOwed', options, {
    ...LIST_RULES,
    inbox: inboxWith('find', 'list', 'readNote', 'writeNote'),
    pending: required(func<OwedOptions['pending']>()),
    keyOf: required(func<OwedOptions['keyOf']>()),
    terminal: required(
      rule(
        `an array of event types (${EVENT_TYPES.join(', ')})`,
        (types) => Array.isArray(types) && types.length > 0 && types.every(isEventType),
      ),
    ),
    withinMs: required(integer({ min: 0 })),
    onMovement: func((): void => undefined),
    signal: abortSignal(new AbortController().signal),
  });
  return {
    ...settings,
    maxLimit: Math.max(settings.maxLimit, settings.listMax ?? 0),
    runtime: toRuntime(settings.runtime),
    inbox: orInboxFailed(settings.inbox),
  };
}

function toPending({ key, since }: PendingMovement, row: number): Pending {
  const time =
    since instanceof Date
      ? since.getTime()
      : isDateTime(since)
        ? createdAtMs({ created_at: since })
        : Number.NaN;
  const text = toKey(key);
  if (text !== undefined && !Number.isNaN(time)) return { key: text, since: time };
  throw new ConfigError(
    `findOwed: row ${row} of \`pending\` needs a \`key\` (a string or number) and a \`since\` (a Date or an RFC 3339 date-time with its UTC offset).`,
  );
}

const toKey = (key: unknown) =>
  typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint' ? String(key) : undefined;

interface Search {
  readonly settings: OwedSettings;
  readonly at: number;
  /** Read before the inbox, so that the inbox has every event that this state covers. */
  readonly state: PollState;
  readonly first: readonly InboxRecord[];
  list: (ReadList & { readonly from: number }) | undefined;
}

async function readChunk(movements: readonly Pending[], search: Search): Promise<OwedFacts> {
  const { settings, state, at, first } = search;
  const { inbox, keyOf, terminal, lagMs } = settings;
  const oldest = movements.reduce((time, { since }) => Math.min(time, since), Number.POSITIVE_INFINITY);
  // The event may be older than the app's row, and the clocks may differ.
  const from = oldest - lagMs;
  if (search.list === undefined || search.list.from > from) {
    search.list = { ...(await readList({ ...settings, since: from, state, startedAt: at })), from };
  }
  const { list } = search;
  const keys = new Set(movements.map(({ key }) => key));
  const ended = new Map<string, Ending>();
  const keyIn = (event: UnknownEvent) => {
    const key = (terminal as readonly string[]).includes(event.type) ? toKey(keyOf(event)) : undefined;
    return key !== undefined && keys.has(key) ? key : undefined;
  };
  let removedUntil = Number.NEGATIVE_INFINITY;
  let unreadableAt = Number.NEGATIVE_INFINITY;
  /** A sign that the service's list does not show everything, for example because it belongs to another environment. */
  let doubt: GapReason | undefined = list.conflicts.size > 0 ? 'contradiction' : undefined;
  const compare = (record: InboxRecord) => {
    const place = placeInList(record, list);
    if (place === 'removed') removedUntil = list.shownFrom;
    if (place === 'lacking' && !isTestId(record.id)) doubt = 'unlisted';
  };
  for (const record of first) compare(record);
  const receivedSince = Math.max(0, Math.floor(from));
  for await (const page of recordPages(inbox, { receivedSince, limit: PAGE_SIZE })) {
    for (const record of page) {
      compare(record);
      if (record.event === null) unreadableAt = Math.max(unreadableAt, record.receivedAt);
      const key = record.event === null ? undefined : keyIn(record.event);
      // If a movement has several events, keep one that is not done, because it says more.
      if (key !== undefined && (ended.get(key)?.state ?? 'done') === 'done') ended.set(key, record);
    }
    await takeTurn(settings);
  }
  for (const { event } of list.events.values()) {
    const key = keyIn(event);
    if (key === undefined || ended.has(key)) continue;
    const record = await inbox.find(event.id);
    ended.set(key, record ?? { ...event, state: null, updatedAt: 0, lastError: null, ignored: false });
  }
  const watermark = state.watermark && Math.min(state.watermark, list.settledAt);
  const firstAt = first[0]?.receivedAt ?? Number.POSITIVE_INFINITY;
  const proofs = { list: list.proof, state: { ...state, watermark }, removedUntil, firstAt };
  const span = { from: from - 1, until: list.settledAt };
  const unproven = doubt
    ? [{ ...span, types: terminal, reason: doubt }]
    : findUnproven(span, proofs).filter(({ types }) => types.some((type) => terminal.includes(type)));
  return { settings, at, settledAt: list.settledAt, ended, unproven, unreadableAt };
}
