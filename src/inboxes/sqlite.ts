import { ConfigError } from '../core/errors.js';
import { encodeEvent, type UnknownEvent } from '../core/events.js';
import { func, integer, readOptions, required, rule, withMethods } from '../core/options.js';
import {
  EMPTY_POLL_STATE,
  INBOX_STATES,
  type Inbox,
  type InboxOperations,
  type Lease,
} from '../core/ports.js';
import {
  configure,
  createStepRunner,
  type OwnConnection,
  openPath,
  type SqliteLike,
} from './sqlite-connection.js';
import { migrate, prepareStatements, type Statements, toPollState, toRecord } from './sqlite-sql.js';

export type { SqliteLike } from './sqlite-connection.js';

/** Options of {@link sqliteInbox}. */
export interface SqliteInboxOptions {
  /**
   * How long a step waits in ms while another process writes. After that the step fails and the delivery is
   * answered 503. The drivers are synchronous, so this process does nothing else while it waits.
   *
   * @default 5_000
   */
  readonly busyTimeoutMs?: number | undefined;
  /**
   * Returns the current time in epoch ms. All processes that share the file must use the same clock.
   *
   * @default Date.now
   */
  readonly now?: (() => number) | undefined;
}

/** The inbox that {@link sqliteInbox} returns. */
export interface SqliteInbox extends Omit<Inbox, 'transaction'>, InboxOperations {
  /** Closes the file if it was given as a path; a connection stays open. */
  close(): void;
}

const CONNECTION = withMethods('a connection', ['exec', 'prepare']);
const FILE = rule('a path, or a connection of node:sqlite, better-sqlite3, libsql or bun:sqlite', (value) =>
  typeof value === 'string' ? value !== '' : CONNECTION.accepts(value),
);

/** How many events one step prunes: other processes wait until it is committed. */
const PRUNE_BATCH = 1_000;

/**
 * Keeps events in an SQLite file, in tables called `stablehooks_…`, which it creates and migrates. All
 * processes of one machine can share the file.
 *
 * Pass a path, which `node:sqlite` opens, or a connection of `node:sqlite`, `better-sqlite3`, `libsql` or
 * `bun:sqlite` that nothing else uses. The connection is set to WAL with `synchronous = FULL`, so that events
 * that were answered 200 survive a power failure. Each step is part of a transaction and fails while the app
 * has one open on the same connection. The file must be on a local disk.
 *
 * There is no `transaction`: handlers are asynchronous and share one connection, so the writes of other
 * deliveries would become part of a handler's transaction and roll back with it.
 *
 * @param file - a path, or a connection.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `file` is wrong, the file cannot be used, a
 * newer release wrote it, or `file` is a path and this runtime has no `node:sqlite`.
 *
 * @example
 * ```ts
 * const receiver = createReceiver({ secret, handlers, inbox: sqliteInbox('events.db') });
 * ```
 */
export function sqliteInbox(file: string | SqliteLike, options: SqliteInboxOptions = {}): SqliteInbox {
  const { busyTimeoutMs, now } = readOptions('sqliteInbox', options, {
    busyTimeoutMs: integer({ default: 5_000, min: 0 }),
    now: func(Date.now),
  });
  readOptions('sqliteInbox', { file }, { file: required(FILE) });
  const { durable, sql, inTransaction, close } = open(file, { busyTimeoutMs });

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
      return sql.settle(at, at, state, error, at, state, error, dueAt, id, token).length === 1;
    });
  }

  return {
    durable,
    close,

    async claim(event, { leaseMs, origin, json = encodeEvent(event), early = false }) {
      const { id, type } = event;
      return step((at) => {
        let [row = NEW] = sql.state(id);
        if (row.updated_at > at) {
          followClock(sql, at);
          [row = NEW] = sql.state(id);
        }
        const { state, due_at: dueAt } = row;
        if (state === 'done' || state === 'dead') return { state };
        const retryAfterMs = (dueAt ?? 0) - at;
        const waits = state === 'leased' || (state === 'failed' && !early);
        if (waits && retryAfterMs > 0) return { state, retryAfterMs };

        const token = crypto.randomUUID();
        const [leased] = sql.lease(id, type, origin, json, at, at, sum(at, leaseMs), token);
        return { state: 'claimed', lease: { id, token, attempt: leased?.attempts ?? 1 } };
      });
    },

    async complete(lease) {
      return settle(lease, { state: 'done', retryAfterMs: null, error: null });
    },

    async fail(lease, { retryAfterMs, error: message }) {
      const error = JSON.stringify(message.slice(0, 1_000));
      return settle(lease, { state: retryAfterMs === null ? 'dead' : 'failed', retryAfterMs, error });
    },

    async record(events, { dueInMs, origin, json = [] }) {
      // Encoded before the step: an event that cannot be encoded must not fail the other steps.
      const page = events.map((event, index) => [event, json[index] ?? encodeEvent(event)] as const);
      const state = dueInMs === null ? 'parked' : 'received';
      return step((at) => {
        const dueAt = dueInMs === null ? null : sum(at, dueInMs);
        return page.map(([{ id, type }, text]) => {
          const [recorded] = sql.record(id, type, origin, text, at, at, dueAt, state);
          return recorded === undefined ? (sql.state(id)[0]?.state ?? 'new') : 'new';
        });
      });
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      const taken = await step((at) => {
        followClock(sql, at);
        const parked = types.length === 0 ? [] : sql.parked(JSON.stringify(types), limit);
        const rows = [...parked, ...sql.due(at, limit - parked.length)];
        for (const { id } of rows) sql.take(sum(at, visibilityTimeoutMs), at, id);
        return rows;
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

/** Does everything that can fail before the first event. */
function open(file: string | SqliteLike, { busyTimeoutMs }: { readonly busyTimeoutMs: number }) {
  let own: OwnConnection | undefined;
  try {
    if (typeof file === 'string') own = openPath(file);
    const db = own ?? (file as SqliteLike);
    const durable = configure(db, { busyTimeoutMs });
    migrate(db);
    return {
      durable,
      sql: prepareStatements(db),
      inTransaction: createStepRunner(db),
      close: () => own?.close(),
    };
  } catch (cause) {
    own?.close();
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(
      'sqliteInbox: the SQLite file cannot be used; see the cause. Check that it is a database file, that this process can write to it and to its directory, and that no other process keeps it locked.',
      { cause },
    );
  }
}
