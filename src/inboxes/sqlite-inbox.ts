/** The inbox over an SQLite database, however it is opened. */
import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import {
  EMPTY_POLL_STATE,
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type Lease,
} from '../core/ports.js';
import {
  type DueRow,
  prepareStatements,
  type SqliteLike,
  type Statements,
  toPollState,
  toRecord,
} from './sqlite-sql.js';

/** Runs a step in a transaction, or in one that it shares, and resolves with its result after the commit. */
export type RunStep = <Value>(step: () => Value) => Promise<Value>;

interface SqliteInboxSettings {
  /** A database whose tables are migrated. */
  readonly db: SqliteLike;
  readonly durable: boolean;
  readonly now: () => number;
  readonly inTransaction: RunStep;
}

/** How many events one step prunes: other processes wait until it is committed. */
const PRUNE_BATCH = 1_000;

export function createSqliteInbox({
  db,
  durable,
  now,
  inTransaction,
}: SqliteInboxSettings): Omit<Inbox, 'transaction'> & InboxOperations {
  const sql = prepareStatements(db);

  /** Runs a step with the time, in whole ms like the columns. */
  function step<Value>(work: (at: number) => Value): Promise<Value> {
    return inTransaction(() => work(Math.round(now())));
  }

  /** Durations can have a fraction. */
  const sum = (at: number, ms: number) => Math.round(at + ms);

  function settle(
    { id, token }: Lease,
    to: { state: 'done' | 'failed' | 'dead'; retryAfterMs: number | null; error: string | null },
  ) {
    return step((at) => {
      const { state, retryAfterMs, error } = to;
      const dueAt = retryAfterMs === null ? null : sum(at, retryAfterMs);
      const [settled] = sql.settle(at, at, state, error, at, state, error, dueAt, id, token);
      if (settled === undefined) return false;
      if (settled.key !== null) sql.release(at, at, settled.key);
      return true;
    });
  }

  /** The event that has the lease of a key, also if it has lapsed. */
  const holderOf = (key: string | undefined) => (key === undefined ? undefined : sql.holder(key)[0]);

  return {
    durable,

    async claim(event, { leaseMs, origin, json = encodeEvent(event), early = false, key }) {
      const { id, type } = event;
      const keyColumns = toKeyColumns(event, key);
      return step((at) => {
        let [row = NEW] = sql.state(id);
        let holder = holderOf(key);
        if (row.updated_at > at || (holder !== undefined && holder.updated_at > at)) {
          followClock(sql, at);
          [row = NEW] = sql.state(id);
          holder = holderOf(key);
        }
        const { state, due_at: dueAt } = row;
        if (state === 'done' || state === 'dead') return { state };
        const retryAfterMs = (dueAt ?? 0) - at;
        const waits = state === 'leased' || (state === 'failed' && !early);
        if (waits && retryAfterMs > 0) return { state, retryAfterMs };

        if (holder !== undefined && holder.id !== id) {
          if (holder.due_at > at) {
            sql.record(id, type, origin, json, at, at, holder.due_at, ...keyColumns, 'received');
            // In this order: its own lease, which has lapsed, must not be a second one of the key.
            sql.wait(holder.due_at, at, id);
            sql.setKey(...keyColumns, id);
            return { state: 'waiting', retryAfterMs: holder.due_at - at };
          }
          sql.wait(sum(at, leaseMs), at, holder.id);
        }
        const token = crypto.randomUUID();
        const [leased] = sql.lease(id, type, origin, json, at, at, sum(at, leaseMs), ...keyColumns, token);
        return { state: 'claimed', lease: { id, token, attempt: leased?.attempts ?? 1, key } };
      });
    },

    async complete(lease) {
      return settle(lease, { state: 'done', retryAfterMs: null, error: null });
    },

    async fail(lease, { retryAfterMs, error: message }) {
      const error = JSON.stringify(message.slice(0, 1_000));
      return settle(lease, { state: retryAfterMs === null ? 'dead' : 'failed', retryAfterMs, error });
    },

    async record(events, { dueInMs, origin, json = [], keys = [] }) {
      // Encoded before the step: an event that cannot be encoded must not fail the other steps.
      const page = events.map((event, index) => ({
        ...{ id: event.id, type: event.type, text: json[index] ?? encodeEvent(event) },
        keyColumns: toKeyColumns(event, keys[index]),
      }));
      const state = dueInMs === null ? 'parked' : 'received';
      return step((at) => {
        const dueAt = dueInMs === null ? null : sum(at, dueInMs);
        return page.map(({ id, type, text, keyColumns }) => {
          const [recorded] = sql.record(id, type, origin, text, at, at, dueAt, ...keyColumns, state);
          return recorded === undefined ? (sql.state(id)[0]?.state ?? 'new') : 'new';
        });
      });
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      if (limit < 1) return [];
      const typeList = JSON.stringify(types);

      /** The events that are due, the longest due first. Nothing is written while they are read. */
      function* due(at: number): Generator<DueRow> {
        if (types.length > 0) yield* inPages(limit, (...page) => sql.parked(typeList, ...page));
        yield* inPages(limit, (...page) => sql.due(at, ...page));
      }

      const taken = await step((at) => {
        followClock(sql, at);
        const visibleAt = sum(at, visibilityTimeoutMs);
        const ids: string[] = [];
        const keys = new Map<string, { readonly firstId: string | undefined; readonly waitsUntil: number }>();
        for (const { id, key } of due(at)) {
          if (key === null) {
            ids.push(id);
          } else if (!keys.has(key)) {
            const holder = holderOf(key);
            const isHeld = holder !== undefined && holder.due_at > at;
            const [first] = isHeld ? [] : sql.firstDueOfKey(key, at, typeList);
            if (first !== undefined) ids.push(first.id);
            keys.set(key, { firstId: first?.id, waitsUntil: isHeld ? holder.due_at : visibleAt });
          }
          if (ids.length === limit) break;
        }
        for (const [key, { firstId = null, waitsUntil }] of keys) {
          sql.passOver(waitsUntil, at, key, at, typeList, firstId);
        }
        return ids.flatMap((id) => sql.take(visibleAt, at, id));
      });
      return taken.map(({ event: json }) => ({ event: JSON.parse(json) as UnknownEvent, json }));
    },

    async acquirePoll({ holder, leaseMs }) {
      return step((at) => {
        sql.movePollBack(at, at, at);
        const [state] = sql.acquirePoll(holder, sum(at, leaseMs), at);
        return state === undefined ? null : toPollState(state);
      });
    },

    async savePoll({ since, watermark, gaps, limit, oldest }, { holder, leaseMs }) {
      const json = JSON.stringify(gaps);
      return step((at) => {
        const until = sum(at, leaseMs);
        const listed = oldest && JSON.stringify(oldest);
        return sql.savePoll(since, watermark, json, limit, listed, until, at, holder).length === 1;
      });
    },

    async pollState() {
      return sql.pollState().map(toPollState)[0] ?? EMPTY_POLL_STATE;
    },

    async find(id) {
      return sql.find(id).map(toRecord)[0];
    },

    async list({ state, limit, after: last, order = 'oldest' }) {
      const [from] = last === undefined ? [] : sql.find(last);
      if (order === 'newest') {
        const { received_at: at, id } = from ?? { received_at: Number.MAX_SAFE_INTEGER, id: '' };
        return sql.listNewest(state, at, id, limit).map(toRecord);
      }
      return sql.list(state, from?.received_at ?? 0, from?.id ?? '', limit).map(toRecord);
    },

    async count() {
      const counts = sql.count();
      return INBOX_STATES.map((state) => {
        const row = counts.find((each) => each.state === state);
        return { state, count: row?.count ?? 0, oldest: row?.oldest ?? null };
      });
    },

    async requeue(id) {
      return step((at) => sql.requeue(at, at, id).length === 1);
    },

    async prune({ olderThanMs }) {
      for (let pruned = 0; ; ) {
        const { length } = await step((at) => sql.prune(at - olderThanMs, PRUNE_BATCH));
        pruned += length;
        if (length < PRUNE_BATCH) return pruned;
      }
    },
  };
}

/** What `sql.state` has for an event that is not there. */
const NEW = { state: 'received', due_at: null, updated_at: 0 } as const;

/** The columns `key` and `created_at`: the events of a key are in the order of their creation. */
function toKeyColumns(event: UnknownEvent, key: string | undefined) {
  return key === undefined ? ([null, null] as const) : ([key, createdAtMs(event)] as const);
}

/** Reads rows in pages that double: most calls need the first, and a key can have most of the rows. */
function* inPages<Row>(
  first: number,
  read: (size: number, offset: number) => readonly Row[],
): Generator<Row> {
  for (let size = first, offset = 0; ; offset += size, size *= 2) {
    const rows = read(size, offset);
    yield* rows;
    if (rows.length < size) return;
  }
}

/**
 * Follows a clock that was set back: the events that the file has from later than `at` are moved back by the
 * difference, so that a lease ends and an event is due after at most its own time from now. What is older keeps its
 * times: a clock that was ahead for a moment must not end the leases from before.
 *
 * The rows tell it, and not the earlier steps of this process: another process may have written them and be gone.
 */
function followClock(sql: Statements, at: number): void {
  const [{ latest } = { latest: null }] = sql.latest(at);
  if (latest !== null) sql.moveBack(latest - at, latest - at, at);
}
