import { encodeEvent, type UnknownEvent } from '../core/events.js';
import { func, integer, readOptions } from '../core/options.js';
import {
  type ClaimOptions,
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Lease,
  type PollState,
} from '../core/ports.js';

/** Options of {@link memoryInbox}. */
export interface MemoryInboxOptions {
  /**
   * The maximum number of events. A full inbox forgets the oldest `done` event, which then runs again if it
   * is delivered again. If no event is `done`, the inbox takes no new event and the delivery is answered 503.
   *
   * @default 100_000
   */
  readonly capacity?: number | undefined;
  /** Returns the current time in epoch ms. @default Date.now */
  readonly now?: (() => number) | undefined;
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
  const { capacity, now } = readOptions('memoryInbox', options, {
    capacity: integer({ default: 100_000 }),
    now: func(Date.now),
  });
  const { dueList, open, done, get, add, change, finish } = createStore({ capacity, now });
  let tokens = 0;
  let poll = { holder: '', leaseUntil: 0, state: { watermark: null, largest: 0 } as PollState };

  /** The event of a lease that is still valid. */
  function findLeased({ id, token }: Lease): StoredEvent | undefined {
    const stored = open.get(id);
    return stored?.record.state === 'leased' && stored.token === token ? stored : undefined;
  }

  return {
    durable: false,

    async claim(event, { leaseMs, origin, json }) {
      const found = get(event.id);
      if (found?.record.state === 'done' || found?.record.state === 'dead')
        return { state: found.record.state };
      const leftMs = found?.record.state === 'leased' ? (found.record.dueAt ?? 0) - now() : 0;
      if (leftMs > 0) return { state: 'leased', retryAfterMs: leftMs };

      const stored = found ?? add(event, { state: 'received', origin, dueAt: null, json });
      tokens += 1;
      stored.token = String(tokens);
      const { attempts: attempt } = change(stored, {
        state: 'leased',
        attempts: stored.record.attempts + 1,
        dueAt: now() + leaseMs,
      });
      return { state: 'claimed', lease: { id: event.id, token: stored.token, attempt } };
    },

    async complete(lease) {
      const stored = findLeased(lease);
      if (stored === undefined) return false;
      change(stored, { state: 'done', dueAt: null, lastError: null });
      finish(stored);
      return true;
    },

    async fail(lease, { retryAfterMs, error }) {
      const stored = findLeased(lease);
      if (stored === undefined) return false;
      const lastError = error.slice(0, 1_000);
      change(
        stored,
        retryAfterMs === null
          ? { state: 'dead', dueAt: null, lastError }
          : { state: 'failed', dueAt: now() + retryAfterMs, lastError },
      );
      return true;
    },

    async record(events, { dueInMs, origin }) {
      return events.map((event) => {
        const found = get(event.id);
        if (found !== undefined) return found.record.state;
        add(event, {
          state: dueInMs === null ? 'parked' : 'received',
          origin,
          dueAt: dueInMs === null ? null : now() + dueInMs,
        });
        return 'new';
      });
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      const at = now();
      const events: UnknownEvent[] = [];
      if (limit < 1) return events;
      for (const stored of dueList.take({ at, types })) {
        const { state } = stored.record;
        stored.token = undefined;
        change(stored, { state: STATE_WHEN_TAKEN[state] ?? state, dueAt: at + visibilityTimeoutMs });
        const event = parseStored(stored);
        if (event !== null) events.push(event);
        if (events.length >= limit) break;
      }
      return events;
    },

    async acquirePoll({ holder, leaseMs }) {
      if (poll.holder !== holder && poll.leaseUntil > now()) return null;
      poll = { ...poll, holder, leaseUntil: now() + leaseMs };
      return poll.state;
    },

    async savePoll(state, { holder, leaseMs }) {
      if (poll.holder !== holder) return false;
      poll = { holder, leaseUntil: now() + leaseMs, state };
      return true;
    },

    async find(id) {
      const stored = get(id);
      return stored && toRecord(stored);
    },

    async list({ state, limit, after }) {
      const last = after === undefined ? undefined : get(after);
      return [...(state === 'done' ? done : open).values()]
        .filter((stored) => stored.record.state === state && (last === undefined || byAge(stored, last) > 0))
        .sort(byAge)
        .slice(0, limit)
        .map(toRecord);
    },

    async count() {
      const records = [...open.values(), ...done.values()].map(({ record }) => record);
      return INBOX_STATES.map((state) => {
        const times = records.filter((record) => record.state === state).map(({ updatedAt }) => updatedAt);
        const oldest = times.length === 0 ? null : times.reduce((a, b) => Math.min(a, b));
        return { state, count: times.length, oldest };
      });
    },

    async requeue(id) {
      const stored = open.get(id);
      if (stored?.record.state !== 'dead') return false;
      change(stored, { state: 'received', attempts: 0, dueAt: now() });
      return true;
    },

    async prune({ olderThanMs }) {
      const before = now() - olderThanMs;
      const old = [...done.values()].filter(
        ({ record, json }) => json !== null && record.updatedAt <= before,
      );
      for (const stored of old) stored.json = null;
      return old.length;
    },
  };
}

/** The state of an event after `takeDue`; a state that is not listed does not change. */
const STATE_WHEN_TAKEN: Partial<Record<InboxState, InboxState>> = { leased: 'failed', parked: 'received' };

interface StoredEvent {
  readonly record: Omit<InboxRecord, 'event'>;
  /** A string, so that a handler that changes its event does not change the next attempt; `null` once pruned. */
  json: string | null;
  /** The token of the last claim. */
  token: string | undefined;
}

/** The event as it was recorded, a new object at each call. */
function parseStored({ json }: StoredEvent): UnknownEvent | null {
  return json === null ? null : JSON.parse(json);
}

function toRecord(stored: StoredEvent): InboxRecord {
  return { ...stored.record, event: parseStored(stored) };
}

function byAge({ record: a }: StoredEvent, { record: b }: StoredEvent): number {
  if (a.receivedAt !== b.receivedAt) return a.receivedAt - b.receivedAt;
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1;
}

/** Events by id. `done` is a map of its own, so that neither a search for due events nor eviction reads both. */
interface Store {
  readonly open: ReadonlyMap<string, StoredEvent>;
  readonly done: ReadonlyMap<string, StoredEvent>;
  readonly dueList: DueList;
  get(id: string): StoredEvent | undefined;
  /** Evicts the oldest `done` event if the store is full, and throws if there is none. */
  add(
    event: UnknownEvent,
    record: Pick<InboxRecord, 'state' | 'origin' | 'dueAt'> & Pick<ClaimOptions, 'json'>,
  ): StoredEvent;
  change(stored: StoredEvent, changes: Partial<StoredEvent['record']>): StoredEvent['record'];
  /** Moves an event from `open` to `done`. */
  finish(stored: StoredEvent): void;
}

function createStore({ capacity, now }: { readonly capacity: number; readonly now: () => number }): Store {
  const open = new Map<string, StoredEvent>();
  const done = new Map<string, StoredEvent>();
  const dueList = createDueList(open);

  // One iterator that continues after the last eviction: a new one would step over every deleted slot again.
  let oldestFirst = done.keys();

  function nextOldest(): string | undefined {
    const next = oldestFirst.next();
    if (!next.done) return next.value;
    // An iterator that has ended does not see keys that were added later.
    oldestFirst = done.keys();
    return oldestFirst.next().value;
  }

  return {
    open,
    done,
    dueList,
    get: (id) => open.get(id) ?? done.get(id),

    add(event, { state, origin, dueAt, json = encodeEvent(event) }) {
      if (open.size + done.size >= capacity) {
        const oldest = nextOldest();
        if (oldest === undefined) {
          throw new Error(
            `The memory inbox is full: it holds ${capacity} events and none is done. Raise \`capacity\` or use a durable inbox.`,
          );
        }
        done.delete(oldest);
      }
      const at = now();
      const { id, type } = event;
      const times = { receivedAt: at, updatedAt: at, dueAt };
      const record = { id, type, state, attempts: 0, origin, ...times, lastError: null };
      const stored: StoredEvent = { record, json, token: undefined };
      open.set(id, stored);
      dueList.changed(stored);
      return stored;
    },

    change(stored, changes) {
      // In place, because this runs twice per delivery; callers of find and list get a copy.
      Object.assign(stored.record, changes, { updatedAt: now() });
      dueList.changed(stored);
      return stored.record;
    },

    finish(stored) {
      open.delete(stored.record.id);
      done.set(stored.record.id, stored);
    },
  };
}

interface DueQuery {
  /** Events with `dueAt` up to this time are due. */
  readonly at: number;
  /** Parked events of these types are due. */
  readonly types: readonly string[];
}

/**
 * Due events in the order of `dueAt`. The list is sorted once and serves many calls: to search all open
 * events at each call takes quadratic time.
 */
interface DueList {
  /** Yields each due event once, the longest due first. */
  take(query: DueQuery): Generator<StoredEvent>;
  /** Must be called after each change. Discards the list if the event may belong before others in it. */
  changed(stored: StoredEvent): void;
}

function createDueList(open: ReadonlyMap<string, StoredEvent>): DueList {
  /** The longest due is the last element; `undefined` when the list must be built. */
  let list: StoredEvent[] | undefined;
  let builtFor: DueQuery = { at: Number.NEGATIVE_INFINITY, types: [] };

  return {
    *take(query) {
      const taken = new Set<StoredEvent>();
      for (let built = false; ; ) {
        if (list === undefined || query.types !== builtFor.types || (list.length === 0 && !built)) {
          built = true;
          builtFor = query;
          list = [...open.values()].filter((stored) => isDue(stored, query) && !taken.has(stored));
          list.sort((a, b) => (a.record.dueAt ?? 0) - (b.record.dueAt ?? 0)).reverse();
        }
        const stored = list.pop();
        if (stored === undefined) return;
        // It may have been claimed or settled since the list was built.
        if (open.get(stored.record.id) !== stored || !isDue(stored, query)) continue;
        taken.add(stored);
        yield stored;
      }
    },
    changed({ record: { state, dueAt } }) {
      if (state === 'parked' || (dueAt !== null && dueAt <= builtFor.at)) list = undefined;
    },
  };
}

function isDue({ record: { state, dueAt, type } }: StoredEvent, { at, types }: DueQuery): boolean {
  return state === 'parked' ? types.includes(type) : dueAt !== null && dueAt <= at;
}
