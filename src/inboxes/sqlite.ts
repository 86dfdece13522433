/** The inbox in an SQLite file: durable, for one machine, shared by as many of its processes as there are. */
import { ConfigError } from '../core/errors.js';
import { encodeEvent } from '../core/events.js';
import { INBOX_STATES, type Inbox, type InboxOperations, type Lease } from '../core/inbox.js';
import { func, integer, readOptions } from '../core/options.js';
import { configure, type OwnConnection, openFile, type SqliteLike } from './sqlite-connection.js';
import { migrate } from './sqlite-schema.js';
import { decodeEvent, prepareStatements, toRecord } from './sqlite-statements.js';
import { createSteps } from './sqlite-steps.js';

export type { SqliteLike } from './sqlite-connection.js';

/** Options of {@link sqliteInbox}. */
export interface SqliteInboxOptions {
  /**
   * How long a step waits while another process writes; then it fails, and the delivery is answered 503.
   * The drivers are synchronous: this process does nothing else meanwhile.
   *
   * @default 5_000
   */
  readonly busyTimeoutMs?: number | undefined;
  /** The clock, in epoch ms; the same for every process on the file. @default Date.now */
  readonly now?: (() => number) | undefined;
}

/** What {@link sqliteInbox} makes. */
export interface SqliteInbox extends Omit<Inbox, 'transaction'>, InboxOperations {
  /** Closes the file that was given as a path; a connection that was passed in stays open. */
  close(): void;
}

/** How many events one step prunes, so that other processes need not wait long. */
const PRUNED_AT_ONCE = 1_000;

/**
 * Makes an inbox in an SQLite file, its tables included, which are all called `stablehooks_…`.
 *
 * Pass a connection of `node:sqlite`, `better-sqlite3`, `libsql` or `bun:sqlite` and leave it to the inbox
 * alone: it is set to WAL with `synchronous = FULL`, so that what was answered 200 outlives a power cut, and
 * each step is part of a transaction, which fails while the app has one open on the same connection. Or pass
 * a path, which `node:sqlite` opens. The file must be on a disk of this machine.
 *
 * It has no `transaction`: handlers are asynchronous and the connection is one, so the writes of other
 * deliveries would fall into a handler's transaction and roll back with it.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the file cannot be used, when a newer release wrote it, or
 * when a path is given and this runtime has no `node:sqlite`.
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
  const { durable, sql, step, close } = open(file, { busyTimeoutMs });

  /** Whole, as the columns are: a caller's duration may have a fraction. */
  const after = (ms: number) => Math.round(now() + ms);

  function settle({ id, token }: Lease, to: { state: string; dueAt: number | null; error: string | null }) {
    return step(() => sql.settle(to.state, to.dueAt, to.error, after(0), id, token).length === 1);
  }

  return {
    durable,
    close,

    async claim(event, { leaseMs, origin, json = encodeEvent(event) }) {
      const { id, type } = event;
      return step(() => {
        const [found] = sql.standing(id);
        if (found?.state === 'done' || found?.state === 'dead') return { state: found.state };
        const leftMs = found?.state === 'leased' ? (found.due_at ?? 0) - now() : 0;
        if (leftMs > 0) return { state: 'leased', retryAfterMs: leftMs };

        const at = after(0);
        const token = crypto.randomUUID();
        const [row] = sql.lease(id, type, origin, json, at, at, after(leaseMs), token);
        return { state: 'claimed', lease: { id, token, attempt: row?.attempts ?? 1 } };
      });
    },

    async complete(lease) {
      return settle(lease, { state: 'done', dueAt: null, error: null });
    },

    async fail(lease, { retryAfterMs, error: words }) {
      const error = JSON.stringify(words.slice(0, 1_000));
      return retryAfterMs === null
        ? settle(lease, { state: 'dead', dueAt: null, error })
        : settle(lease, { state: 'failed', dueAt: after(retryAfterMs), error });
    },

    async record(events, { dueInMs, origin }) {
      // Written out beforehand: an event that cannot be must not fail the steps beside this one.
      const page = events.map((event) => ({ id: event.id, type: event.type, json: encodeEvent(event) }));
      const state = dueInMs === null ? 'parked' : 'received';
      return step(() => {
        const at = after(0);
        const dueAt = dueInMs === null ? null : after(dueInMs);
        return page.map(({ id, type, json }) => {
          const [recorded] = sql.record(id, type, origin, json, at, at, dueAt, state);
          return recorded === undefined ? (sql.standing(id)[0]?.state ?? 'new') : 'new';
        });
      });
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      const taken = await step(() => {
        const at = after(0);
        const parked = types.length === 0 ? [] : sql.parked(JSON.stringify(types), limit);
        const rows = [...parked, ...sql.due(at, limit - parked.length)];
        for (const { id } of rows) sql.hide(after(visibilityTimeoutMs), at, id);
        return rows;
      });
      return taken.map(decodeEvent).filter((event) => event !== null);
    },

    async acquirePoll({ holder, leaseMs }) {
      return step(() => {
        const [state] = sql.acquirePoll(holder, after(leaseMs), after(0));
        return state === undefined ? null : { watermark: state.watermark, largest: state.largest };
      });
    },

    async savePoll({ watermark, largest }, { holder, leaseMs }) {
      return step(() => sql.savePoll(watermark, largest, after(leaseMs), holder).length === 1);
    },

    async find(id) {
      return sql.find(id).map(toRecord)[0];
    },

    async list({ state, limit, after: last }) {
      const [from] = last === undefined ? [] : sql.find(last);
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
      return step(() => sql.requeue(after(0), after(0), id).length === 1);
    },

    async prune({ olderThanMs }) {
      const before = now() - olderThanMs;
      for (let pruned = 0; ; ) {
        const { length } = await step(() => sql.prune(before, PRUNED_AT_ONCE));
        pruned += length;
        if (length < PRUNED_AT_ONCE) return pruned;
      }
    },
  };
}

/** Opens, sets up and migrates: all that can fail before the first event. */
function open(file: string | SqliteLike, options: { readonly busyTimeoutMs: number }) {
  let own: OwnConnection | undefined;
  try {
    if (typeof file === 'string') own = openFile(file);
    const db = own ?? (file as SqliteLike);
    const durable = configure(db, options);
    migrate(db);
    return { durable, sql: prepareStatements(db), step: createSteps(db), close: () => own?.close() };
  } catch (cause) {
    own?.close();
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError(
      'The SQLite file cannot be used as an inbox; see the cause. Check that it is a database file, that this process may write to it and to its folder, and that no other process keeps it locked.',
      { cause },
    );
  }
}
