/** The inbox in this process's memory: for tests, demos, and apps that a catch-up poller stands behind. */
import type { UnknownEvent } from '../core/events.js';
import {
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Lease,
  type PollState,
} from '../core/inbox.js';
import { func, integer, readOptions } from '../core/options.js';
import { type Entry, eventOf } from './memory-entry.js';
import { createStore } from './memory-store.js';

/** Options of {@link memoryInbox}. */
export interface MemoryInboxOptions {
  /**
   * How many events it holds. When it is full it forgets the oldest that is done, and a replay of that one
   * would run again; when none is done it takes nothing new, and the delivery is answered 503.
   *
   * @default 100_000
   */
  readonly capacity?: number | undefined;
  /** The clock, in epoch ms. @default Date.now */
  readonly now?: (() => number) | undefined;
}

/**
 * Makes an inbox that forgets everything when the process ends. It is not durable, so it never gives an
 * event up after `maxAttempts`: its sender has to come again.
 */
export function memoryInbox(options: MemoryInboxOptions = {}): Omit<Inbox, 'transaction'> & InboxOperations {
  const { capacity, now } = readOptions('memoryInbox', options, {
    capacity: integer({ default: 100_000 }),
    now: func(Date.now),
  });
  const { line, open, done, get, add, change, finish } = createStore({ capacity, now });
  let tokens = 0;
  let poll = { holder: '', leaseUntil: 0, state: { watermark: null, largest: 0 } as PollState };

  /** The entry that this lease may settle. */
  function leased({ id, token }: Lease): Entry | undefined {
    const entry = open.get(id);
    return entry?.record.state === 'leased' && entry.token === token ? entry : undefined;
  }

  return {
    durable: false,

    async claim(event, { leaseMs, origin, json }) {
      const found = get(event.id);
      if (found?.record.state === 'done' || found?.record.state === 'dead')
        return { state: found.record.state };
      const leftMs = found?.record.state === 'leased' ? (found.record.dueAt ?? 0) - now() : 0;
      if (leftMs > 0) return { state: 'leased', retryAfterMs: leftMs };

      const entry = found ?? add(event, { state: 'received', origin, dueAt: null, json });
      tokens += 1;
      entry.token = String(tokens);
      const { attempts: attempt } = change(entry, {
        state: 'leased',
        attempts: entry.record.attempts + 1,
        dueAt: now() + leaseMs,
      });
      return { state: 'claimed', lease: { id: event.id, token: entry.token, attempt } };
    },

    async complete(lease) {
      const entry = leased(lease);
      if (entry === undefined) return false;
      change(entry, { state: 'done', dueAt: null, lastError: null });
      finish(entry);
      return true;
    },

    async fail(lease, { retryAfterMs, error }) {
      const entry = leased(lease);
      if (entry === undefined) return false;
      const lastError = error.slice(0, 1_000);
      change(
        entry,
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
      for (const entry of line.take({ at, types })) {
        const { state } = entry.record;
        entry.token = undefined;
        change(entry, { state: TAKEN[state] ?? state, dueAt: at + visibilityTimeoutMs });
        const event = eventOf(entry);
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
      const entry = get(id);
      return entry && toRecord(entry);
    },

    async list({ state, limit, after }) {
      const last = after === undefined ? undefined : get(after);
      return [...(state === 'done' ? done : open).values()]
        .filter((entry) => entry.record.state === state && (last === undefined || byAge(entry, last) > 0))
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
      const entry = open.get(id);
      if (entry?.record.state !== 'dead') return false;
      change(entry, { state: 'received', attempts: 0, dueAt: now() });
      return true;
    },

    async prune({ olderThanMs }) {
      const before = now() - olderThanMs;
      const old = [...done.values()].filter(
        ({ record, json }) => json !== null && record.updatedAt <= before,
      );
      for (const entry of old) entry.json = null;
      return old.length;
    },
  };
}

function toRecord(entry: Entry): InboxRecord {
  return { ...entry.record, event: eventOf(entry) };
}

function byAge({ record: a }: Entry, { record: b }: Entry): number {
  if (a.receivedAt !== b.receivedAt) return a.receivedAt - b.receivedAt;
  return a.id === b.id ? 0 : a.id < b.id ? -1 : 1;
}

/** What a state turns into when the event is taken to be run again; the others stay. */
const TAKEN: Partial<Record<InboxState, InboxState>> = { leased: 'failed', parked: 'received' };
