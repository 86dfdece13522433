/** This inbox lacks the operations for operators, because no code can call them on a receiver's default inbox. */
import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import type {
  Inbox,
  InboxAttempt,
  InboxRecord,
  InboxState,
  InboxStep,
  Lease,
  RecordResult,
  StoreOptions,
} from '../core/ports.js';
import { type Runtime, watchClock } from '../core/runtime.js';
import { toStorable } from './rows.js';
import { AHEAD_MS } from './selection.js';

export const CAPACITY = 100_000;

export function memoryOps(store: EventStore): Omit<Inbox, 'transaction'> {
  const { now } = store;
  const notes = new Map<string, { text?: string; holder?: string; leaseUntil?: number; leasedAt?: number }>();
  let tokens = 0;

  function findLeased({ id, token }: Lease): Entry | undefined {
    const entry = store.open.get(id);
    return entry?.state === 'leased' && entry.token === token ? entry : undefined;
  }

  /** If the event has a lease, that lease must have expired, and the attempt ends as lapsed. */
  function receive(entry: Entry, dueAt: number, { isWaiting }: Pick<Entry, 'isWaiting'>, at = now()): void {
    if (entry.state === 'leased') store.endAttempt(entry, 'lapsed', null);
    entry.isWaiting = isWaiting;
    store.change(entry, 'received', dueAt, at);
  }

  function release(key: string): void {
    const next = store.findFirstWaiting(key);
    if (next !== undefined) receive(next, now(), { isWaiting: false });
  }

  function storePage(
    events: readonly UnknownEvent[],
    { origin, json }: StoreOptions,
    { state, dueAt }: Pick<Entry, 'state' | 'dueAt'>,
    keys?: readonly (string | undefined)[],
  ): readonly RecordResult[] {
    return events.map((event, index) => {
      const found = store.get(event.id);
      if (found !== undefined) return found.state;
      const entry = store.add(event, { state, origin, dueAt, json: json?.[index] });
      store.setKey(entry, event, keys?.[index]);
      return 'new';
    });
  }

  return {
    durable: false,

    claim(event, { leaseMs, origin, json, early = false, key }) {
      const found = store.get(event.id);
      const state = found?.state;
      const at = now();
      if (state === 'done' || state === 'dead') return { state };
      if (found !== undefined && (state === 'leased' || (state === 'failed' && !early))) {
        const retryAfterMs = (found.dueAt ?? 0) - at;
        if (retryAfterMs > 0) return { state, retryAfterMs };
      }
      const entry = found ?? store.add(event, { state: 'received', origin, dueAt: null, json }, at);
      store.setKey(entry, event, key);
      const holder = entry.key === null ? undefined : store.findHolder(entry, entry.key);
      if (holder !== undefined) {
        const heldUntil = holder.dueAt ?? 0;
        const retryAfterMs = heldUntil - at;
        if (retryAfterMs > 0) {
          receive(entry, heldUntil, { isWaiting: true });
          return { state: 'waiting', retryAfterMs };
        }
        receive(holder, at + leaseMs, { isWaiting: true });
      }
      if (state === 'leased') store.endAttempt(entry, 'lapsed', null);
      entry.isWaiting = false;
      entry.attempts += 1;
      tokens += 1;
      const token = String(tokens);
      entry.token = token;
      entry.startedAt = at;
      store.change(entry, 'leased', at + leaseMs, at);
      const { id, attempts: attempt } = entry;
      return { state: 'claimed', lease: { id, token, attempt, key } };
    },

    complete(lease) {
      const entry = findLeased(lease);
      if (entry === undefined) return false;
      store.finish(entry);
      if (entry.key !== null) release(entry.key);
      return true;
    },

    fail(lease, { retryAfterMs, error, later }) {
      const entry = findLeased(lease);
      if (entry === undefined) return false;
      const isTooOld = later !== undefined && entry.receivedAt <= now() - later.maxAgeMs;
      const isDead = retryAfterMs === null || isTooOld;
      const ended = isDead ? 'dead' : later === undefined ? 'failed' : 'later';
      entry.lastError = toStorable(error);
      store.endAttempt(entry, ended, entry.lastError);
      if (ended === 'later') entry.attempts -= 1;
      store.change(entry, ended === 'later' ? 'received' : ended, isDead ? null : now() + retryAfterMs);
      if (entry.key !== null) release(entry.key);
      return isTooOld ? 'dead' : true;
    },

    readSteps: (lease) => findLeased(lease)?.steps ?? null,

    saveStep(lease, name, result) {
      const entry = findLeased(lease);
      const found = entry?.steps.find((step) => step.name === name);
      const isRefused = found ? found.result !== null || result === null : result === undefined;
      if (entry === undefined || isRefused) return false;
      const others = entry.steps.filter((step) => step !== found);
      const step = { name, attempt: entry.attempts, at: now() };
      entry.steps = result === undefined ? others : [...others, { ...step, result }];
      return true;
    },

    record(events, { dueInMs, keys, ...options }) {
      if (dueInMs === null) return storePage(events, options, { state: 'parked', dueAt: null }, keys);
      return storePage(events, options, { state: 'received', dueAt: now() + dueInMs }, keys);
    },

    ignore: (events, options) => storePage(events, options, { state: 'done', dueAt: null }),

    takeDue({ limit, visibilityTimeoutMs, types }) {
      const at = now();
      const taken = store.findDue(at, types, limit);
      for (const entry of taken) {
        const since = entry.state === 'received' ? entry.updatedAt : at;
        receive(entry, at + visibilityTimeoutMs, { isWaiting: false }, since);
      }
      return taken.map(({ id, json }) => ({ id, json: json ?? '' }));
    },

    readNote: (name) => notes.get(name)?.text ?? null,

    writeNote(name, text, fence) {
      const note = notes.get(name);
      if (fence !== undefined && fence.holder !== note?.holder) return false;
      notes.set(name, { ...note, text });
      return true;
    },

    leaseNote(name, { holder, leaseMs }) {
      const at = now();
      const { leaseUntil = 0, leasedAt = 0, ...note } = notes.get(name) ?? {};
      const isHeld = leaseUntil > at && leasedAt <= at + AHEAD_MS;
      if (note.holder !== holder && isHeld) return false;
      notes.set(name, { ...note, holder, leaseUntil: at + leaseMs, leasedAt: at });
      return true;
    },
  };
}

/** Most events share this history, because their first attempt succeeds. */
export const NO_ATTEMPTS: readonly InboxAttempt[] = Object.freeze([]);

export const NO_STEPS: readonly InboxStep[] = Object.freeze([]);

type Mutable<Of> = { -readonly [Name in keyof Of]: Of[Name] };

/** The store changes entries in place, and keeps them flat to save memory. */
export interface Entry extends Mutable<Omit<InboxRecord, 'event'>> {
  startedAt: number;
  /** The history lacks the attempt that completed the event. */
  history: readonly InboxAttempt[];
  steps: readonly InboxStep[];
  /** The event is kept as text, so that no handler can change it. Pruned and imported events have `null`. */
  json: string | null;
  token: string | undefined;
  /** Whether the event waits for another event with the same key. Even a waiting event becomes due at `dueAt`. */
  isWaiting: boolean;
  /** This time is in epoch ms, and is set only if the event has a key. */
  createdAt: number;
  readonly number: number;
}

interface NewEntry extends Pick<Entry, 'state' | 'origin' | 'dueAt'> {
  /** @default the event, serialized as JSON */
  readonly json?: string | null | undefined;
}

/** A history keeps 10 attempts, including the oldest one if its lease expired, because its effect may have happened. */
export function withAttempt(
  history: readonly InboxAttempt[],
  attempt: InboxAttempt,
): readonly InboxAttempt[] {
  const [first, ...later] = history;
  if (first === undefined || history.length < 10) return [...history, attempt];
  return first.result === 'lapsed' ? [first, ...later.slice(1), attempt] : [...later, attempt];
}

function dueFrom({ state, dueAt }: Entry): number {
  return state === 'parked' ? 0 : (dueAt ?? Number.POSITIVE_INFINITY);
}

/** This entry replaces every done event if `keepsDone` is false, because the id is enough to recognize a duplicate. */
const DONE = Object.freeze({ state: 'done' }) as Entry;

interface MemorySettings {
  readonly capacity: number;
  readonly runtime: Pick<Runtime, 'now' | 'elapsed'>;
  readonly keepsDone: boolean;
}

/** Done events have a separate map, so that a search for due events doesn't read them. */
export class EventStore {
  readonly open = new Map<string, Entry>();
  readonly done = new Map<string, Entry>();
  readonly now: () => number;
  readonly #keyed = new Map<string, Set<Entry>>();
  readonly #settings: MemorySettings;
  #added = 0;
  /** Keeps the events that were due at the last search, because a search in every call would take quadratic time. */
  #due: Entry[] = [];
  #dueTypes: readonly string[] = [];
  /** The iterator is kept, because a new one would step over every deleted slot again. */
  #oldestFirst = this.done.keys();

  constructor(settings: MemorySettings) {
    this.#settings = settings;
    this.now = watchClock(settings.runtime, (ms) => {
      for (const entry of this.open.values())
        if (entry.state === 'leased') entry.dueAt = (entry.dueAt ?? 0) + ms;
    });
  }

  get(id: string): Entry | undefined {
    return this.open.get(id) ?? this.done.get(id);
  }

  /** The holder's lease may have expired. */
  findHolder(entry: Entry, key: string): Entry | undefined {
    return this.#ofKey(key).find((other) => other.state === 'leased' && other !== entry);
  }

  /** The first event is the one that was created first, or was received first among events created at the same time. */
  findFirstWaiting(key: string): Entry | undefined {
    const waiting = this.#ofKey(key).filter(({ isWaiting }) => isWaiting);
    return waiting.sort((a, b) => a.createdAt - b.createdAt || a.number - b.number)[0];
  }

  #ofKey(key: string): readonly Entry[] {
    return [...(this.#keyed.get(key) ?? [])];
  }

  setKey(entry: Entry, event: UnknownEvent, key: string | undefined): void {
    if (entry.key === (key ?? null)) return;
    this.#leaveKey(entry);
    entry.key = key ?? null;
    if (key === undefined) return;
    entry.createdAt = createdAtMs(event);
    this.#keyed.set(key, (this.#keyed.get(key) ?? new Set()).add(entry));
  }

  #leaveKey(entry: Entry): void {
    const entries = this.#keyed.get(entry.key ?? '');
    entries?.delete(entry);
    if (entries?.size === 0) this.#keyed.delete(entry.key ?? '');
  }

  /** If the store is full, forgets an event that doesn't have to run, or throws if there is no such event. */
  add(event: UnknownEvent, stored: NewEntry, at = this.now()): Entry {
    if (this.open.size + this.done.size >= this.#settings.capacity) this.#evict();
    const { id, type } = event;
    const { json = encodeEvent(event) } = stored;
    const entry: Entry = {
      id,
      type,
      state: stored.state,
      attempts: 0,
      origin: stored.origin,
      key: null,
      receivedAt: at,
      updatedAt: at,
      dueAt: stored.dueAt,
      lastError: null,
      ignored: stored.state === 'done' && json !== null,
      startedAt: at,
      history: NO_ATTEMPTS,
      steps: NO_STEPS,
      json,
      token: undefined,
      isWaiting: false,
      createdAt: 0,
      number: this.#added++,
    };
    (entry.state === 'done' ? this.done : this.open).set(id, entry);
    return entry;
  }

  change(entry: Entry, state: InboxState, dueAt: number | null, at = this.now()): void {
    entry.state = state;
    entry.dueAt = dueAt;
    entry.updatedAt = at;
  }

  endAttempt(entry: Entry, result: 'failed' | 'dead' | 'later' | 'lapsed', error: string | null): void {
    const { attempts: attempt, startedAt, dueAt } = entry;
    const lapsedAt = result === 'lapsed' ? dueAt : null;
    // The clock can jump during a lease, but an attempt must not end before it starts.
    const endedAt = Math.max(startedAt, lapsedAt ?? this.now());
    entry.history = withAttempt(entry.history, { attempt, startedAt, endedAt, result, error });
  }

  finish(entry: Entry): void {
    this.open.delete(entry.id);
    this.#leaveKey(entry);
    this.change(entry, 'done', null);
    entry.lastError = null;
    this.done.set(entry.id, this.#settings.keepsDone ? entry : DONE);
  }

  reopen(entry: Entry): void {
    entry.ignored = false;
    this.done.delete(entry.id);
    this.open.set(entry.id, entry);
  }

  /** The caller must postpone the returned events. Otherwise, a later call returns them again. */
  findDue(at: number, types: readonly string[], limit: number): readonly Entry[] {
    const found = new Set<Entry>();
    // An entry may have been claimed or settled since the search.
    const isDue = (entry: Entry) =>
      types.includes(entry.type) && dueFrom(entry) <= at && this.open.get(entry.id) === entry;
    const take = () => {
      while (found.size < limit && this.#due.length > 0) {
        const entry = this.#due.pop() as Entry;
        if (isDue(entry)) found.add(entry);
      }
    };
    if (types !== this.#dueTypes) this.#due = [];
    this.#dueTypes = types;
    take();
    if (found.size < limit) {
      this.#due = [...this.open.values()].filter((entry) => isDue(entry) && !found.has(entry));
      this.#due.sort((a, b) => dueFrom(a) - dueFrom(b)).reverse();
      take();
    }
    return [...found];
  }

  #evict(): void {
    let oldest = this.#oldestFirst.next();
    if (oldest.done) {
      // An iterator that has ended doesn't see events that are added later.
      this.#oldestFirst = this.done.keys();
      oldest = this.#oldestFirst.next();
    }
    if (!oldest.done) {
      this.done.delete(oldest.value);
      return;
    }
    const open = [...this.open.values()];
    const needless =
      open.find(({ state }) => state === 'dead') ?? open.find(({ state }) => state === 'parked');
    if (needless === undefined) {
      throw new Error(
        `The memory inbox is full: each of its ${this.#settings.capacity} events has yet to run. Raise \`capacity\`, or use a durable inbox.`,
      );
    }
    this.open.delete(needless.id);
    this.#leaveKey(needless);
  }
}
