import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import { integer, readOptions, withMethods } from '../core/options.js';
import {
  EMPTY_POLL_STATE,
  INBOX_STATES,
  type Inbox,
  type InboxAttempt,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Lease,
  type Logger,
  type PollState,
  type RecordResult,
  type StoreOptions,
} from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import {
  readCountOptions,
  readDiscardOptions,
  readImportedIds,
  readListOptions,
  readPruneOptions,
  readRequeueOptions,
  type Selection,
  unknownAfter,
} from './operation-options.js';
import { readStored, toStored } from './rows.js';
import { byAge, isSelected } from './selection.js';

/** Options of {@link memoryInbox}. */
export interface MemoryInboxOptions {
  /**
   * The maximum number of events. A full inbox forgets the oldest `done` event, else the oldest `dead`, else the
   * oldest `parked` one, which then runs again if it is delivered again. If all events still have to run, the inbox
   * takes no new event and the delivery is answered 503.
   *
   * @default 100_000
   */
  readonly capacity?: number | undefined;
  /** Takes the warning that `dead` or `parked` events are forgotten, once. @default console */
  readonly logger?: Logger | undefined;
  /** Time, timers and randomness, for tests. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

/**
 * Keeps events in the memory of this process, for tests, demos and single long-running processes.
 *
 * It is not durable: all events are lost when the process ends. It therefore never dead-letters an event
 * after `maxAttempts`; the sender has to deliver the event again.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is unknown or wrong.
 *
 * @example
 * ```ts
 * const receiver = createReceiver({ secret, handlers, inbox: memoryInbox({ capacity: 10_000 }) });
 * ```
 */
export function memoryInbox(options: MemoryInboxOptions = {}): Omit<Inbox, 'transaction'> & InboxOperations {
  const settings = readOptions('memoryInbox', options, {
    capacity: integer({ default: 100_000 }),
    logger: withMethods<Logger>('a logger, such as console or pino()', ['warn', 'error'], console),
    runtime: RUNTIME,
  });
  const { now } = toRuntime(settings.runtime);
  const store = new EventStore({ ...settings, now });
  let tokens = 0;
  let poll: { readonly holder?: string; readonly leaseUntil: number; readonly state: PollState } = {
    leaseUntil: 0,
    state: EMPTY_POLL_STATE,
  };

  /** The event of a lease that is still valid. */
  function findLeased({ id, token }: Lease): Entry | undefined {
    const entry = store.open.get(id);
    return entry?.state === 'leased' && entry.token === token ? entry : undefined;
  }

  /** The event that has the lease of a key, even if it has lapsed. */
  function holderOf(events: KeyEvents): Entry | undefined {
    const last = events.lastClaimed;
    return last?.state === 'leased' ? last : undefined;
  }

  /** Makes an event wait for another of its key. */
  function wait(entry: Entry, dueAt: number): void {
    if (entry.state === 'leased') store.endAttempt(entry, 'lapsed', null);
    entry.token = undefined;
    entry.isWaiting = true;
    store.change(entry, 'received', dueAt);
  }

  /** After the end of an attempt: the first event that waits for its key is due. */
  function release(key: string | null | undefined): void {
    let next: Entry | undefined;
    for (const entry of store.eventsOf(key)?.open ?? []) {
      if (entry.isWaiting && (next === undefined || isBefore(entry, next))) next = entry;
    }
    if (next === undefined) return;
    next.isWaiting = false;
    store.change(next, next.state, now());
  }

  function select(selection: Selection): Entry[] {
    const { ids } = selection;
    const entries =
      ids === undefined
        ? [...store.open.values(), ...store.done.values()]
        : [...new Set(ids)].flatMap((id) => store.get(id) ?? []);
    return entries.filter((entry) => isSelected(selection.damaged ? toRecord(entry) : entry, selection));
  }

  /** The selected events that were received first. */
  function selectFirst({ selection, limit }: { readonly selection: Selection; readonly limit: number }) {
    return select(selection).sort(byAge).slice(0, limit);
  }

  /** Stores the new events of a page, and answers for each. */
  function storePage(
    events: readonly UnknownEvent[],
    { origin, json, traceparent }: StoreOptions,
    { state, dueAt }: { readonly state: InboxState; readonly dueAt: number | null },
    keys?: readonly (string | undefined)[],
  ): readonly RecordResult[] {
    return events.map((event, index) => {
      const found = store.get(event.id);
      if (found !== undefined) return found.state;
      const entry = store.add(event, { state, origin, dueAt, json: json?.[index], traceparent });
      const key = keys?.[index];
      if (key !== undefined) store.setKey(entry, event, key);
      return 'new';
    });
  }

  return {
    durable: false,

    claim(event, { leaseMs, origin, json, early = false, key, traceparent }) {
      const found = store.open.get(event.id) ?? store.done.get(event.id);
      const state = found?.state;
      const at = now();
      if (state === 'done' || state === 'dead') return { state };
      if (found !== undefined && (state === 'leased' || (state === 'failed' && !early))) {
        const retryAfterMs = (found.dueAt ?? 0) - at;
        if (retryAfterMs > 0) return { state, retryAfterMs };
      }
      const entry = found ?? store.add(event, { state: 'received', origin, dueAt: null, json, traceparent });
      if (entry.key !== (key ?? null)) store.setKey(entry, event, key);
      const events = key === undefined ? undefined : store.eventsOf(key);
      const holder = events && holderOf(events);
      if (holder !== undefined && holder !== entry) {
        const heldUntil = holder.dueAt ?? 0;
        const retryAfterMs = heldUntil - at;
        if (retryAfterMs > 0) {
          wait(entry, heldUntil);
          return { state: 'waiting', retryAfterMs };
        }
        wait(holder, at + leaseMs);
      }
      if (state === 'leased') store.endAttempt(entry, 'lapsed', null);
      entry.isWaiting = false;
      entry.attempts += 1;
      tokens += 1;
      const token = String(tokens);
      entry.token = token;
      if (events !== undefined) events.lastClaimed = entry;
      entry.state = 'leased';
      entry.startedAt = at;
      entry.updatedAt = at;
      entry.dueAt = at + leaseMs;
      const { id, attempts: attempt } = entry;
      return {
        state: 'claimed',
        lease: { id, token, attempt, key, traceparent: entry.traceparent ?? undefined },
      };
    },

    complete(lease) {
      const entry = findLeased(lease);
      if (entry === undefined) return false;
      store.finish(entry);
      if (lease.key !== undefined) release(lease.key);
      return true;
    },

    fail(lease, { retryAfterMs, error }) {
      const entry = findLeased(lease);
      if (entry === undefined) return false;
      const isDead = retryAfterMs === null;
      entry.lastError = error.slice(0, 1_000);
      store.endAttempt(entry, isDead ? 'dead' : 'failed', entry.lastError);
      store.change(entry, isDead ? 'dead' : 'failed', isDead ? null : now() + retryAfterMs);
      release(lease.key);
      return true;
    },

    record(events, { dueInMs, keys, ...options }) {
      const isParked = dueInMs === null;
      const due = {
        state: isParked ? 'parked' : 'received',
        dueAt: isParked ? null : now() + dueInMs,
      } as const;
      return storePage(events, options, due, keys);
    },

    ignore: (events, options) => storePage(events, options, { state: 'done', dueAt: null }),

    takeDue({ limit, visibilityTimeoutMs, types, onDamaged }) {
      const at = now();
      const taken: Entry[] = [];
      if (limit < 1) return [];
      for (const entry of store.takeDue({ at, types })) {
        if (entry.state === 'leased') store.endAttempt(entry, 'lapsed', null);
        entry.token = undefined;
        entry.isWaiting = false;
        store.change(entry, 'received', at + visibilityTimeoutMs);
        taken.push(entry);
        if (taken.length >= limit) break;
      }
      return toStored(taken, onDamaged);
    },

    acquirePoll({ holder, leaseMs }) {
      if (poll.holder !== holder && poll.leaseUntil > now()) return null;
      poll = { ...poll, holder, leaseUntil: now() + leaseMs };
      return poll.state;
    },

    savePoll(state, { holder, leaseMs }) {
      if (poll.holder !== holder) return false;
      poll = { holder, leaseUntil: now() + leaseMs, state };
      return true;
    },

    async pollState() {
      return poll.state;
    },

    async lastPoller() {
      return poll.holder ?? null;
    },

    async find(id) {
      const entry = store.get(id);
      return entry && toRecord(entry);
    },

    async list(options) {
      const { selection, limit, after, order } = readListOptions(options);
      const last = after === undefined ? undefined : store.get(after);
      if (after !== undefined && last === undefined) throw unknownAfter(after);
      const compare: typeof byAge = order === 'oldest' ? byAge : (one, other) => byAge(other, one);
      return select(selection)
        .filter((entry) => last === undefined || compare(entry, last) > 0)
        .sort(compare)
        .slice(0, limit)
        .map(toRecord);
    },

    async count(filter = {}) {
      const entries = select(readCountOptions(filter));
      return INBOX_STATES.map((state) => {
        const times = entries.filter((entry) => entry.state === state).map(({ updatedAt }) => updatedAt);
        const oldest = times.length === 0 ? null : times.reduce((a, b) => Math.min(a, b));
        return { state, count: times.length, oldest };
      });
    },

    async requeue(which) {
      const requeued = selectFirst(readRequeueOptions(which));
      for (const entry of requeued) {
        entry.attempts = 0;
        store.change(entry, 'received', now());
      }
      return requeued.length;
    },

    async discard(options) {
      const { by, reason, ...which } = readDiscardOptions(options);
      const discarded = selectFirst(which);
      for (const entry of discarded) {
        const at = now();
        const attempt = { attempt: entry.attempts, startedAt: at, endedAt: at, result: 'discarded' } as const;
        entry.history = withAttempt(entry.history, { ...attempt, error: null, by, reason });
        store.finish(entry);
      }
      return discarded.length;
    },

    async importDone(ids) {
      const added = readImportedIds(ids)
        .flat()
        .filter((id) => store.get(id) === undefined);
      const imported = { state: 'done', origin: 'import', dueAt: null, json: null } as const;
      for (const id of added) store.add({ id, type: '', created_at: '', payload: {} }, imported);
      return added.length;
    },

    async prune(options) {
      const { olderThanMs } = readPruneOptions(options);
      const before = now() - olderThanMs;
      const old = [...store.done.values()].filter(
        ({ json, updatedAt }) => json !== null && updatedAt <= before,
      );
      for (const entry of old) entry.json = null;
      return old.length;
    },
  };
}

/** How many attempts an event's history holds. */
const HISTORY_LENGTH = 10;

/** Shared, because most events have no attempt that ended before the last one. */
const NO_ATTEMPTS: readonly InboxAttempt[] = Object.freeze([]);

/** An event and its state, changed in place. One flat object, because a full inbox keeps many of them alive. */
interface Entry {
  readonly id: string;
  readonly type: string;
  readonly origin: InboxRecord['origin'];
  readonly traceparent: string | null;
  readonly receivedAt: number;
  state: InboxState;
  attempts: number;
  key: string | null;
  updatedAt: number;
  dueAt: number | null;
  lastError: string | null;
  /** When the last attempt began. */
  startedAt: number;
  /** The attempts that ended, without the one that completed the event. */
  history: readonly InboxAttempt[];
  /** A string, so a handler that changes its event does not change the next attempt; `null` once pruned. */
  json: string | null;
  /** The token of the last claim. */
  token: string | undefined;
  /** Whether it waits for another event of its key; it is due at the latest at its `dueAt`. */
  isWaiting: boolean;
  /** When the event was created, if it has a key: as it says, or in epoch ms. */
  createdAt: string | number;
  /** In which order the events were received. */
  readonly number: number;
}

function toRecord(entry: Entry): InboxRecord {
  const { id, type, state, attempts, origin, key, traceparent, receivedAt, updatedAt, dueAt, lastError } =
    entry;
  return {
    ...{ id, type, state, attempts, origin, key, traceparent, receivedAt, updatedAt, dueAt, lastError },
    history: historyOf(entry),
    ...readStored(entry),
  };
}

function historyOf({ state, attempts, startedAt, updatedAt, history, json }: Entry): readonly InboxAttempt[] {
  if (json === null) return NO_ATTEMPTS;
  if (state !== 'done' || attempts === 0 || history.at(-1)?.result === 'discarded') return history;
  const endedAt = Math.max(startedAt, updatedAt);
  return withAttempt(history, { attempt: attempts, startedAt, endedAt, result: 'done', error: null });
}

function withAttempt(history: readonly InboxAttempt[], attempt: InboxAttempt): readonly InboxAttempt[] {
  return [...(history.length < HISTORY_LENGTH ? history : history.slice(1)), attempt];
}

/** The order of the events of one key. */
function isBefore(a: Entry, b: Entry): boolean {
  const [atA, atB] = [createdAtOf(a), createdAtOf(b)];
  return atA === atB ? a.number < b.number : atA < atB;
}

/** Parses the time once, and only of events that others of their key are compared with. */
function createdAtOf(entry: Entry): number {
  if (typeof entry.createdAt === 'string') entry.createdAt = createdAtMs({ created_at: entry.createdAt });
  return entry.createdAt;
}

/** The events of one ordering key. */
interface KeyEvents {
  readonly open: Set<Entry>;
  /** Has the lease of the key, if it is leased. */
  lastClaimed: Entry | undefined;
}

interface DueQuery {
  /** Events with `dueAt` up to this time are due. */
  readonly at: number;
  /** Only events of these types are due. */
  readonly types: readonly string[];
}

function isDue({ state, dueAt, type }: Entry, { at, types }: DueQuery): boolean {
  return (state === 'parked' || (dueAt !== null && dueAt <= at)) && types.includes(type);
}

/** Events by id. `done` is a map of its own, so neither a search for due events nor eviction reads both. */
class EventStore {
  readonly open = new Map<string, Entry>();
  readonly done = new Map<string, Entry>();
  readonly #keys = new Map<string, KeyEvents>();
  readonly #capacity: number;
  readonly #now: () => number;
  readonly #logger: Logger;
  #isWarned = false;
  #added = 0;
  /** Continues after the last eviction: a new iterator would step over every deleted slot again. */
  #oldestFirst = this.done.keys();
  /** Due events, the longest due last. Sorted once for many calls: a search at each call takes quadratic time. */
  #due: Entry[] = [];
  #dueFor: DueQuery = { at: Number.NEGATIVE_INFINITY, types: [] };

  constructor(settings: { readonly capacity: number; readonly now: () => number; readonly logger: Logger }) {
    this.#capacity = settings.capacity;
    this.#now = settings.now;
    this.#logger = settings.logger;
  }

  get(id: string): Entry | undefined {
    return this.open.get(id) ?? this.done.get(id);
  }

  /** The open events of an ordering key; `undefined` when it has none. */
  eventsOf(key: string | null | undefined): KeyEvents | undefined {
    return key === null || key === undefined ? undefined : this.#keys.get(key);
  }

  /** Sets another ordering key, and when the event was created. */
  setKey(entry: Entry, event: UnknownEvent, key: string | undefined): void {
    this.#unsetKey(entry);
    entry.key = key ?? null;
    if (key === undefined) return;
    entry.createdAt = event.created_at;
    const events = this.#keys.get(key);
    if (events === undefined) this.#keys.set(key, { open: new Set([entry]), lastClaimed: undefined });
    else events.open.add(entry);
  }

  #unsetKey(entry: Entry): void {
    const events = this.eventsOf(entry.key);
    if (events === undefined) return;
    events.open.delete(entry);
    if (events.open.size === 0) this.#keys.delete(entry.key ?? '');
    else if (events.lastClaimed === entry) events.lastClaimed = undefined;
  }

  /** Forgets an event that needs no run if the store is full, and throws if it has none. */
  add(
    event: UnknownEvent,
    {
      state,
      origin,
      dueAt,
      json = encodeEvent(event),
      traceparent = null,
    }: Pick<Entry, 'state' | 'origin' | 'dueAt'> & {
      readonly json?: string | null | undefined;
      readonly traceparent?: string | null | undefined;
    },
  ): Entry {
    if (this.open.size + this.done.size >= this.#capacity) this.#evict();
    const at = this.#now();
    const { id, type } = event;
    this.#added += 1;
    const entry: Entry = {
      id,
      type,
      origin,
      traceparent,
      receivedAt: at,
      state,
      attempts: 0,
      key: null,
      updatedAt: at,
      dueAt,
      lastError: null,
      startedAt: at,
      history: NO_ATTEMPTS,
      json,
      token: undefined,
      isWaiting: false,
      createdAt: 0,
      number: this.#added,
    };
    (state === 'done' ? this.done : this.open).set(id, entry);
    if (isDue(entry, this.#dueFor)) this.#due = [];
    return entry;
  }

  change(entry: Entry, state: InboxState, dueAt: number | null): void {
    const at = this.#now();
    entry.state = state;
    entry.dueAt = dueAt;
    entry.updatedAt = at;
    // It may belong before others in the list.
    if (isDue(entry, this.#dueFor)) this.#due = [];
  }

  /** Adds the attempt of a leased event to its history. */
  endAttempt(entry: Entry, result: 'failed' | 'dead' | 'lapsed', error: string | null): void {
    const { attempts: attempt, startedAt, dueAt } = entry;
    const lapsedAt = result === 'lapsed' ? dueAt : null;
    // The clock can go on between the start and the end of a short lease, and can be set back.
    const endedAt = Math.max(startedAt, lapsedAt ?? this.#now());
    entry.history = withAttempt(entry.history, { attempt, startedAt, endedAt, result, error });
  }

  /** Makes an open event done. */
  finish(entry: Entry): void {
    this.close(entry);
    entry.state = 'done';
    entry.dueAt = null;
    entry.lastError = null;
    entry.updatedAt = this.#now();
    this.done.set(entry.id, entry);
  }

  /** Removes an event from the open ones. */
  close(entry: Entry): void {
    this.open.delete(entry.id);
    if (entry.key !== null) this.#unsetKey(entry);
  }

  /** Yields each due event once, the longest due first. */
  *takeDue(query: DueQuery): Generator<Entry> {
    const taken = new Set<Entry>();
    for (;;) {
      if (this.#due.length === 0 || query.types !== this.#dueFor.types) {
        this.#dueFor = query;
        this.#due = [...this.open.values()].filter((entry) => isDue(entry, query) && !taken.has(entry));
        this.#due.sort((a, b) => (a.dueAt ?? 0) - (b.dueAt ?? 0)).reverse();
      }
      const entry = this.#due.pop();
      if (entry === undefined) return;
      // It may have been claimed or settled since the list was built.
      if (this.open.get(entry.id) !== entry || !isDue(entry, query)) continue;
      taken.add(entry);
      yield entry;
    }
  }

  #nextOldest(): string | undefined {
    const next = this.#oldestFirst.next();
    if (!next.done) return next.value;
    // An iterator that has ended does not see keys that were added later.
    this.#oldestFirst = this.done.keys();
    return this.#oldestFirst.next().value;
  }

  /** Makes room for one event. */
  #evict(): void {
    const oldest = this.#nextOldest();
    if (oldest !== undefined) {
      this.done.delete(oldest);
      return;
    }
    // Many at the same time: each search reads all open events.
    const kept = [...this.open.values()];
    const state = (['dead', 'parked'] as const).find((name) => kept.some((entry) => entry.state === name));
    if (state === undefined) {
      throw new Error(
        `The memory inbox is full: it holds ${this.#capacity} events that still have to run. Raise \`capacity\` or use a durable inbox.`,
      );
    }
    const oldestOfState = kept.filter((entry) => entry.state === state);
    for (const entry of oldestOfState.slice(0, Math.ceil(this.#capacity / 100))) this.close(entry);
    if (this.#isWarned) return;
    this.#isWarned = true;
    this.#logger.warn(
      `stablehooks: the memory inbox is full and forgets ${state} events, which run again if they are delivered again. Use a durable inbox, or raise \`capacity\`.`,
    );
  }
}
