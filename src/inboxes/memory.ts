import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import { integer, readOptions, withMethods } from '../core/options.js';
import {
  type ClaimOptions,
  EMPTY_POLL_STATE,
  INBOX_STATES,
  type Inbox,
  type InboxAttempt,
  type InboxOperations,
  type InboxRecord,
  type Lease,
  type Logger,
  type PollState,
  type StoredEvent,
} from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import { readListOptions, readPruneOptions, unknownAfter } from './operation-options.js';

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
  const { dueList, open, done, get, add, change, end, eventsOf, setKey } = createStore({ ...settings, now });
  let tokens = 0;
  let poll: { readonly holder?: string; readonly leaseUntil: number; readonly state: PollState } = {
    leaseUntil: 0,
    state: EMPTY_POLL_STATE,
  };

  /** The event of a lease that is still valid. */
  function findLeased({ id, token }: Lease): Entry | undefined {
    const stored = open.get(id);
    return stored?.record.state === 'leased' && stored.token === token ? stored : undefined;
  }

  /** The event that has the lease of a key, also if it has lapsed. */
  function holderOf(events: KeyEvents | undefined): Entry | undefined {
    const last = events?.lastClaimed;
    return last?.record.state === 'leased' ? last : undefined;
  }

  /** Makes an event wait for another of its key. */
  function wait(stored: Entry, dueAt: number): void {
    if (stored.record.state === 'leased') end(stored, { result: 'lapsed', error: null });
    stored.token = undefined;
    stored.isWaiting = true;
    change(stored, { state: 'received', dueAt });
  }

  /** After the end of an attempt: the first event that waits for its key is due. */
  function release(key: string | null | undefined): void {
    let next: Entry | undefined;
    for (const stored of eventsOf(key)?.open ?? []) {
      if (stored.isWaiting && (next === undefined || isBefore(stored, next))) next = stored;
    }
    if (next === undefined) return;
    next.isWaiting = false;
    change(next, { dueAt: now() });
  }

  /** Makes the due events of a key wait, and returns the first of them, which does not wait, if the key is not held. */
  function passOver(
    events: KeyEvents,
    { at, types, visibleAt }: DueQuery & { readonly visibleAt: number },
  ): Entry | undefined {
    const heldUntil = holderOf(events)?.record.dueAt ?? 0;
    const isHeld = heldUntil > at;
    let first: Entry | undefined;
    for (const stored of events.open) {
      if (!isDue(stored, { at, types })) continue;
      const isFirst = !isHeld && (first === undefined || isBefore(stored, first));
      const passed = isFirst ? first : stored;
      if (isFirst) first = stored;
      if (passed !== undefined) wait(passed, isHeld ? heldUntil : visibleAt);
    }
    return first;
  }

  return {
    durable: false,

    async claim(event, { leaseMs, origin, json, early = false, key, traceparent }) {
      const found = get(event.id);
      const { state, dueAt } = found?.record ?? {};
      if (state === 'done' || state === 'dead') return { state };
      if (state === 'leased' || (state === 'failed' && !early)) {
        const retryAfterMs = (dueAt ?? 0) - now();
        if (retryAfterMs > 0) return { state, retryAfterMs };
      }

      const stored = found ?? add(event, { state: 'received', origin, dueAt: null, json, traceparent });
      const { key: oldKey } = stored.record;
      setKey(stored, event, key);
      // This event may be the one that the others of its old key wait for.
      if (oldKey !== stored.record.key) release(oldKey);
      const events = eventsOf(key);
      const holder = holderOf(events);
      if (holder !== undefined && holder !== stored) {
        const heldUntil = holder.record.dueAt ?? 0;
        const retryAfterMs = heldUntil - now();
        if (retryAfterMs > 0) {
          wait(stored, heldUntil);
          return { state: 'waiting', retryAfterMs };
        }
        wait(holder, now() + leaseMs);
      }
      if (state === 'leased') end(stored, { result: 'lapsed', error: null });
      stored.isWaiting = false;
      tokens += 1;
      stored.token = String(tokens);
      if (events !== undefined) events.lastClaimed = stored;
      const { attempts: attempt } = change(stored, {
        state: 'leased',
        attempts: stored.record.attempts + 1,
        dueAt: now() + leaseMs,
      });
      const { token, record } = stored;
      const lease = { id: event.id, token, attempt, key, traceparent: record.traceparent ?? undefined };
      return { state: 'claimed', lease };
    },

    async complete(lease) {
      const stored = findLeased(lease);
      if (stored === undefined) return false;
      end(stored, { result: 'done', error: null });
      change(stored, { state: 'done', dueAt: null, lastError: null });
      release(lease.key);
      return true;
    },

    async fail(lease, { retryAfterMs, error }) {
      const stored = findLeased(lease);
      if (stored === undefined) return false;
      const lastError = error.slice(0, 1_000);
      end(stored, { result: retryAfterMs === null ? 'dead' : 'failed', error: lastError });
      change(
        stored,
        retryAfterMs === null
          ? { state: 'dead', dueAt: null, lastError }
          : { state: 'failed', dueAt: now() + retryAfterMs, lastError },
      );
      release(lease.key);
      return true;
    },

    async record(events, { dueInMs, origin, json, keys, traceparent }) {
      return events.map((event, index) => {
        const found = get(event.id);
        if (found !== undefined) return found.record.state;
        const stored = add(event, {
          state: dueInMs === null ? 'parked' : 'received',
          origin,
          dueAt: dueInMs === null ? null : now() + dueInMs,
          json: json?.[index],
          traceparent,
        });
        setKey(stored, event, keys?.[index]);
        return 'new';
      });
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      const at = now();
      const taken: StoredEvent[] = [];
      if (limit < 1) return taken;
      const visibleAt = at + visibilityTimeoutMs;
      const passed = new Set<KeyEvents>();
      for (const due of dueList.take({ at, types })) {
        const events = eventsOf(due.record.key);
        let first: Entry | undefined = due;
        if (events !== undefined) {
          if (passed.has(events)) continue;
          passed.add(events);
          first = passOver(events, { at, types, visibleAt });
          if (first === undefined) continue;
        }
        if (first.record.state === 'leased') end(first, { result: 'lapsed', error: null });
        first.token = undefined;
        first.isWaiting = false;
        change(first, { state: 'received', dueAt: visibleAt });
        const { json } = first;
        if (json !== null) taken.push({ event: JSON.parse(json), json });
        if (taken.length >= limit) break;
      }
      return taken;
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

    async pollState() {
      return poll.state;
    },

    async lastPoller() {
      return poll.holder ?? null;
    },

    async find(id) {
      const stored = get(id);
      return stored && toRecord(stored);
    },

    async list(options) {
      const { state, limit, after, order } = readListOptions(options);
      const last = after === undefined ? undefined : get(after);
      if (after !== undefined && last === undefined) throw unknownAfter(after);
      const compare: typeof byAge = order === 'oldest' ? byAge : (one, other) => byAge(other, one);
      return [...(state === 'done' ? done : open).values()]
        .filter(
          (stored) => stored.record.state === state && (last === undefined || compare(stored, last) > 0),
        )
        .sort(compare)
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
      if (stored?.record.state !== 'dead' && stored?.record.state !== 'failed') return false;
      stored.isWaiting = false;
      change(stored, { state: 'received', attempts: 0, dueAt: now() });
      return true;
    },

    async prune(options) {
      const { olderThanMs } = readPruneOptions(options);
      const before = now() - olderThanMs;
      const old = [...done.values()].filter(
        ({ record, json }) => json !== null && record.updatedAt <= before,
      );
      for (const stored of old) {
        stored.json = null;
        stored.history = NO_ATTEMPTS;
      }
      return old.length;
    },
  };
}

/** How many attempts an event's history holds. */
const HISTORY_LENGTH = 10;

/** Shared, because most events are kept with no attempt or one. */
const NO_ATTEMPTS: readonly InboxAttempt[] = Object.freeze([]);

interface Entry {
  readonly record: {
    -readonly [Field in Exclude<keyof InboxRecord, 'event' | 'history'>]: InboxRecord[Field];
  };
  history: readonly InboxAttempt[];
  /** A string, so that a handler that changes its event does not change the next attempt; `null` once pruned. */
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

function toRecord({ record, history, json }: Entry): InboxRecord {
  return { ...record, history, event: json === null ? null : JSON.parse(json) };
}

function byAge({ record: a }: Entry, { record: b }: Entry): number {
  if (a.receivedAt !== b.receivedAt) return a.receivedAt - b.receivedAt;
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1;
}

/** The order of the events of one key. */
function isBefore(a: Entry, b: Entry): boolean {
  const [atA, atB] = [createdAtOf(a), createdAtOf(b)];
  return atA === atB ? a.number < b.number : atA < atB;
}

/** Parses the time once, and only of events that others of their key are compared with. */
function createdAtOf(stored: Entry): number {
  if (typeof stored.createdAt === 'string') stored.createdAt = createdAtMs({ created_at: stored.createdAt });
  return stored.createdAt;
}

/** The events of one ordering key. */
interface KeyEvents {
  readonly open: Set<Entry>;
  /** Has the lease of the key, if it is leased. */
  lastClaimed: Entry | undefined;
}

/** Events by id. `done` is a map of its own, so that neither a search for due events nor eviction reads both. */
interface Store {
  readonly open: ReadonlyMap<string, Entry>;
  readonly done: ReadonlyMap<string, Entry>;
  readonly dueList: DueList;
  get(id: string): Entry | undefined;
  /** The events of an ordering key; `undefined` when none is open, or when there is no key. */
  eventsOf(key: string | null | undefined): KeyEvents | undefined;
  /** Sets the ordering key, and when the event was created. */
  setKey(stored: Entry, event: UnknownEvent, key: string | undefined): void;
  /** Forgets an event that needs no run if the store is full, and throws if there is none. */
  add(
    event: UnknownEvent,
    record: Pick<InboxRecord, 'state' | 'origin' | 'dueAt'> & Pick<ClaimOptions, 'json' | 'traceparent'>,
  ): Entry;
  change(
    stored: Entry,
    changes: Pick<InboxRecord, 'dueAt'> & Partial<Pick<InboxRecord, 'state' | 'attempts' | 'lastError'>>,
  ): Entry['record'];
  /** Adds the attempt of a leased event to its history, and moves an event that is done from `open` to `done`. */
  end(stored: Entry, attempt: Pick<InboxAttempt, 'result' | 'error'>): void;
}

function createStore({
  capacity,
  now,
  logger,
}: {
  readonly capacity: number;
  readonly now: () => number;
  readonly logger: Logger;
}): Store {
  const open = new Map<string, Entry>();
  const done = new Map<string, Entry>();
  const keys = new Map<string | null | undefined, KeyEvents>();
  const dueList = createDueList(open);
  let warned = false;
  let added = 0;

  /** Removes an event from those that are open. */
  function close(stored: Entry): void {
    open.delete(stored.record.id);
    unsetKey(stored);
  }

  function unsetKey(stored: Entry): void {
    const { key } = stored.record;
    const events = keys.get(key);
    if (events === undefined) return;
    events.open.delete(stored);
    if (events.open.size === 0) keys.delete(key);
    else if (events.lastClaimed === stored) events.lastClaimed = undefined;
  }

  // One iterator that continues after the last eviction: a new one would step over every deleted slot again.
  let oldestFirst = done.keys();

  function nextOldest(): string | undefined {
    const next = oldestFirst.next();
    if (!next.done) return next.value;
    // An iterator that has ended does not see keys that were added later.
    oldestFirst = done.keys();
    return oldestFirst.next().value;
  }

  /** Makes room for one event. */
  function evict(): void {
    const oldest = nextOldest();
    if (oldest !== undefined) {
      done.delete(oldest);
      return;
    }
    // Many at once: each search reads all open events.
    const kept = [...open.values()];
    const state = (['dead', 'parked'] as const).find((name) =>
      kept.some(({ record }) => record.state === name),
    );
    if (state === undefined) {
      throw new Error(
        `The memory inbox is full: it holds ${capacity} events that still have to run. Raise \`capacity\` or use a durable inbox.`,
      );
    }
    const oldestOfState = kept.filter(({ record }) => record.state === state);
    for (const stored of oldestOfState.slice(0, Math.ceil(capacity / 100))) close(stored);
    if (warned) return;
    warned = true;
    logger.warn(
      `stablehooks: the memory inbox is full and forgets ${state} events, which run again if they are delivered again. Use a durable inbox, or raise \`capacity\`.`,
    );
  }

  return {
    open,
    done,
    dueList,
    get: (id) => open.get(id) ?? done.get(id),

    eventsOf: (key) => keys.get(key),

    setKey(stored, event, key) {
      if (stored.record.key === (key ?? null)) return;
      unsetKey(stored);
      stored.record.key = key ?? null;
      if (key === undefined) return;
      stored.createdAt = event.created_at;
      const events = keys.get(key);
      if (events === undefined) keys.set(key, { open: new Set([stored]), lastClaimed: undefined });
      else events.open.add(stored);
    },

    add(event, { state, origin, dueAt, json = encodeEvent(event), traceparent = null }) {
      if (open.size + done.size >= capacity) evict();
      const at = now();
      const { id, type } = event;
      added += 1;
      const stored: Entry = {
        // One literal: objects that are spread into it would take half of the time of this function.
        record: {
          id,
          type,
          state,
          attempts: 0,
          origin,
          key: null,
          traceparent,
          receivedAt: at,
          updatedAt: at,
          dueAt,
          lastError: null,
        },
        history: NO_ATTEMPTS,
        json,
        token: undefined,
        isWaiting: false,
        createdAt: 0,
        number: added,
      };
      open.set(id, stored);
      dueList.changed(stored);
      return stored;
    },

    change(stored, { state, attempts, dueAt, lastError }) {
      // In place and field by field, because this runs twice per delivery; callers of find and list get a copy.
      const { record } = stored;
      if (state !== undefined) record.state = state;
      if (attempts !== undefined) record.attempts = attempts;
      record.dueAt = dueAt;
      if (lastError !== undefined) record.lastError = lastError;
      record.updatedAt = now();
      dueList.changed(stored);
      return record;
    },

    end(stored, { result, error }) {
      const { id, attempts: attempt, updatedAt: startedAt, dueAt } = stored.record;
      const lapsedAt = result === 'lapsed' ? dueAt : null;
      // The clock can go on between the start and the end of a short lease, and can be set back.
      const endedAt = Math.max(startedAt, lapsedAt ?? now());
      const { history } = stored;
      const kept = history.length < HISTORY_LENGTH ? history : history.slice(1);
      stored.history = [...kept, { attempt, startedAt, endedAt, result, error }];
      if (result !== 'done') return;
      close(stored);
      done.set(id, stored);
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
  take(query: DueQuery): Generator<Entry>;
  /** Must be called after each change. Discards the list if the event may belong before others in it. */
  changed(stored: Entry): void;
}

function createDueList(open: ReadonlyMap<string, Entry>): DueList {
  /** The longest due is the last element. It is built again once it is empty. */
  let list: Entry[] = [];
  let builtFor: DueQuery = { at: Number.NEGATIVE_INFINITY, types: [] };

  return {
    *take(query) {
      const taken = new Set<Entry>();
      for (;;) {
        if (list.length === 0 || query.types !== builtFor.types) {
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
    changed(stored) {
      if (isDue(stored, builtFor)) list = [];
    },
  };
}

function isDue({ record: { state, dueAt, type } }: Entry, { at, types }: DueQuery): boolean {
  return state === 'parked' ? types.includes(type) : dueAt !== null && dueAt <= at;
}
