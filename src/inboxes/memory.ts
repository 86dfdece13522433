/** The inbox in this process's memory: for tests, demos, and apps that a catch-up poller stands behind. */
import {
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type InboxState,
  type Lease,
  type PollState,
} from '../core/inbox.js';
import { createStore, type Entry } from './memory-store.js';

/** Options of {@link memoryInbox}. */
export interface MemoryInboxOptions {
  /**
   * How many events it holds. When it is full it forgets the oldest that is done, and a replay of that one
   * would run again; when none is done it takes nothing new, and the delivery is answered 503.
   *
   * @default 100_000
   */
  readonly capacity?: number;
  /** The clock, in epoch ms. @default Date.now */
  readonly now?: () => number;
}

/**
 * Makes an inbox that forgets everything when the process ends. It is not durable, so it never gives an
 * event up after `maxAttempts`: its sender has to come again.
 */
export function memoryInbox({
  capacity = 100_000,
  now = Date.now,
}: MemoryInboxOptions = {}): Omit<Inbox, 'transaction'> & InboxOperations {
  const { open, done, get, add, change, finish } = createStore({ capacity, now });
  let tokens = 0;
  let poll = { holder: '', leaseUntil: 0, state: { horizon: null, largest: 0 } as PollState };

  /** The entry that this lease may settle. */
  function leased({ id, token }: Lease): Entry | undefined {
    const entry = open.get(id);
    return entry?.record.state === 'leased' && entry.token === token ? entry : undefined;
  }

  return {
    durable: false,

    async claim(event, { leaseMs, source }) {
      const found = get(event.id);
      if (found?.record.state === 'done' || found?.record.state === 'dead')
        return { state: found.record.state };
      const leftMs = found?.record.state === 'leased' ? (found.record.dueAt ?? 0) - now() : 0;
      if (leftMs > 0) return { state: 'leased', retryAfterMs: leftMs };

      const entry = found ?? add(event, { state: 'received', source, dueAt: null });
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

    async admit(events, { dueInMs, source }) {
      return events.map((event) => {
        const found = get(event.id);
        if (found !== undefined) return found.record.state;
        add(event, {
          state: dueInMs === null ? 'parked' : 'received',
          source,
          dueAt: dueInMs === null ? null : now() + dueInMs,
        });
        return 'new';
      });
    },

    async takeDue({ limit, hideMs, types }) {
      const at = now();
      const due = [...open.values()].filter(({ record: { state, dueAt, type } }) =>
        state === 'parked' ? types.includes(type) : dueAt !== null && dueAt <= at,
      );
      due.sort((a, b) => (a.record.dueAt ?? 0) - (b.record.dueAt ?? 0));
      return due.slice(0, limit).flatMap((entry) => {
        const { state, event } = entry.record;
        entry.token = undefined;
        change(entry, { state: TAKEN[state] ?? state, dueAt: at + hideMs });
        return event === null ? [] : [event];
      });
    },

    async takePoll({ holder, leaseMs }) {
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
      return get(id)?.record;
    },

    async list({ state, limit, after }) {
      const records = [...(state === 'done' ? done : open).values()]
        .map(({ record }) => record)
        .filter((record) => record.state === state)
        .sort((a, b) => a.receivedAt - b.receivedAt || (a.id < b.id ? -1 : 1));
      const start = records.findIndex(({ id }) => id === after) + 1;
      return records.slice(start, start + limit);
    },

    async count() {
      const records = [...open.values(), ...done.values()].map(({ record }) => record);
      return INBOX_STATES.map((state) => {
        const times = records.filter((record) => record.state === state).map(({ updatedAt }) => updatedAt);
        const oldest = times.length === 0 ? null : times.reduce((a, b) => Math.min(a, b));
        return { state, count: times.length, oldest };
      });
    },

    async revive(id) {
      const entry = open.get(id);
      if (entry?.record.state !== 'dead') return false;
      change(entry, { state: 'received', attempts: 0, dueAt: now() });
      return true;
    },

    async prune({ olderThanMs }) {
      const before = now() - olderThanMs;
      const old = [...done.values()].filter(
        ({ record }) => record.event !== null && record.updatedAt <= before,
      );
      for (const entry of old) entry.record = { ...entry.record, event: null };
      return old.length;
    },
  };
}

/** What a state turns into when the event is taken to be run again; the others stay. */
const TAKEN: Partial<Record<InboxState, InboxState>> = { leased: 'failed', parked: 'received' };
