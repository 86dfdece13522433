import { HandlerError } from '../core/errors.js';
import { encodeEvent, type UnknownEvent } from '../core/events.js';
import { boolean, readOptions } from '../core/options.js';
import {
  INBOX_STATES,
  type Inbox,
  type InboxCount,
  type InboxOperations,
  type InboxRecord,
  type InboxState,
  type Lease,
  type Origin,
  type RecordResult,
} from '../core/ports.js';
import {
  type PgLike,
  type PgPoolLike,
  type PgTransactional,
  type PgTransactionsLike,
  POOL_RULE,
  queryRows,
  runInTransaction,
  TRANSACTIONAL_POOL_RULE,
} from './postgres-client.js';
import { type PostgresSchemaOptions, SCHEMA_RULE, writeStatements } from './postgres-sql.js';

export {
  type DrizzleLike,
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromTypeOrm,
  type KnexLike,
  type KyselyLike,
  type KyselyQueries,
  type PostgresJsLike,
  type PostgresJsQueries,
  type PrismaLike,
  type PrismaQueries,
  type TypeOrmLike,
  type TypeOrmQueries,
} from './postgres-adapters.js';
export type {
  PgClientLike,
  PgLike,
  PgPoolLike,
  PgTransactionsLike,
  PgTx,
} from './postgres-client.js';
export { migratePostgres, type PostgresSchemaOptions, postgresMigrations } from './postgres-sql.js';

/** Options of {@link postgresInbox}. */
export interface PostgresInboxOptions extends PostgresSchemaOptions {
  /**
   * Whether handlers get `ctx.tx`, an open transaction that also marks the event done: what a handler writes
   * with it takes effect exactly once.
   *
   * Each running handler holds one connection of the pool. The pool needs a few connections more than the
   * number of handlers that run at the same time.
   *
   * @default false
   */
  readonly transactional?: boolean | undefined;
}

/** How many events one statement prunes: other statements wait for its locks. */
const PRUNE_BATCH = 5_000;

/**
 * Keeps events in two tables in Postgres, which {@link migratePostgres} creates, for any number of receivers
 * and workers. Claiming, completing, failing and recording an event take one round trip each. The caller owns the
 * pool: its size, its timeouts, its `error` listener and its end.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `pool` is wrong, or `transactional` is true and
 * `pool` cannot open transactions.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(new Pool({ connectionString }), { transactional: true });
 * ```
 */
export function postgresInbox<Tx>(
  pool: PgPoolLike<Tx> | PgTransactionsLike<Tx>,
  options: PostgresInboxOptions & { readonly transactional: true },
): Inbox<Tx> & InboxOperations;
export function postgresInbox(
  pool: PgLike,
  options?: PostgresInboxOptions & { readonly transactional?: false | undefined },
): Omit<Inbox, 'transaction'> & InboxOperations;
export function postgresInbox(
  pool: PgLike,
  options: PostgresInboxOptions = {},
): Inbox<unknown> & InboxOperations {
  const { schema, transactional } = readOptions('postgresInbox', options, {
    schema: SCHEMA_RULE,
    transactional: boolean(false),
  });
  readOptions('postgresInbox', { pool }, { pool: transactional ? TRANSACTIONAL_POOL_RULE : POOL_RULE });
  const statements = writeStatements(schema);

  async function settle(client: PgLike, { id, token }: Lease): Promise<boolean> {
    return (await queryRows(client, statements.complete, [id, token])).length > 0;
  }

  async function transaction(lease: Lease, effect: (tx: unknown) => Promise<void>): Promise<boolean> {
    const { id, token } = lease;
    // Thrown, because every driver rolls back only after a rejection.
    const leaseLost = new Error('The lease is lost.');
    try {
      // TRANSACTIONAL_POOL_RULE has checked the pool.
      await runInTransaction(pool as PgTransactional<unknown>, async (tx, client) => {
        const fenced = await queryRows(client, statements.fence, [id, token]);
        if (fenced.length === 0) throw leaseLost;
        await effect(tx);
        if (!(await settle(client, lease).catch(rethrowAborted))) throw leaseLost;
      });
      return true;
    } catch (error) {
      if (error === leaseLost) return false;
      throw error;
    }
  }

  return {
    durable: true,

    async claim(event, { leaseMs, origin, json = encodeEvent(event) }) {
      const { id, type } = event;
      const token = crypto.randomUUID();
      const values = [id, type, origin, leaseMs, token, json];
      const [row] = await queryRows<ClaimRow>(pool, statements.claim, values);
      if (row === undefined) {
        throw new Error(
          `Postgres returned no row for the claim of ${id}. Check that no trigger or rule changes the inserts into ${schema}.events.`,
        );
      }
      const { state, attempts, won, left_ms } = row;
      if (won) return { state: 'claimed', lease: { id, token, attempt: attempts } };
      if (state !== 'leased') return { state };
      return { state, retryAfterMs: Math.max(1, left_ms ?? 0) };
    },

    complete: (lease) => settle(pool, lease),

    ...(transactional && { transaction }),

    async fail({ id, token }, { retryAfterMs, error }) {
      // A Postgres text cannot hold U+0000.
      const message = error.slice(0, 1_000).replaceAll('\0', '\ufffd');
      const values = [id, token, retryAfterMs, message];
      return (await queryRows(pool, statements.fail, values)).length > 0;
    },

    async record(events, { dueInMs, origin }) {
      const found = new Map<string, RecordResult>();
      const firsts = new Map<string, UnknownEvent>();
      for (const event of events) if (!firsts.has(event.id)) firsts.set(event.id, event);
      // A second round is needed only for ids that another page or claim was inserting at the same time.
      while (found.size < firsts.size) {
        const page = [...firsts.values()].filter(({ id }) => !found.has(id));
        const columns = [page.map(({ id }) => id), page.map(({ type }) => type), page.map(encodeEvent)];
        const values = [...columns, dueInMs, origin];
        const rows = await queryRows<RecordRow>(pool, statements.record, values);
        for (const { id, state } of rows) found.set(id, state);
      }
      const recordedState = dueInMs === null ? 'parked' : 'received';
      return events.map(({ id }) => {
        const state = found.get(id) ?? recordedState;
        if (state === 'new') found.set(id, recordedState);
        return state;
      });
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      const values = [limit, visibilityTimeoutMs, types];
      const rows = await queryRows<{ readonly event: string }>(pool, statements.takeDue, values);
      return rows.map(({ event }) => JSON.parse(event) as UnknownEvent);
    },

    async acquirePoll({ holder, leaseMs }) {
      const [row] = await queryRows<PollRow>(pool, statements.acquirePoll, [holder, leaseMs]);
      return row ? { watermark: row.watermark, largest: row.largest } : null;
    },

    async savePoll({ watermark, largest }, { holder, leaseMs }) {
      const values = [holder, leaseMs, watermark, largest];
      return (await queryRows(pool, statements.savePoll, values)).length > 0;
    },

    async find(id) {
      const [row] = await queryRows<EventRow>(pool, statements.find, [id]);
      return row && toRecord(row);
    },

    async list({ state, limit, after = null }) {
      return (await queryRows<EventRow>(pool, statements.list, [state, limit, after])).map(toRecord);
    },

    async count() {
      const rows = await queryRows<InboxCount>(pool, statements.count);
      return INBOX_STATES.map(
        (state) => rows.find((row) => row.state === state) ?? { state, count: 0, oldest: null },
      );
    },

    async requeue(id) {
      return (await queryRows(pool, statements.requeue, [id])).length > 0;
    },

    async prune({ olderThanMs }) {
      let total = 0;
      for (let pruned = PRUNE_BATCH; pruned === PRUNE_BATCH; total += pruned) {
        const values = [olderThanMs, PRUNE_BATCH];
        const [row] = await queryRows<{ readonly pruned: number }>(pool, statements.prune, values);
        pruned = row?.pruned ?? 0;
      }
      return total;
    },
  };
}

/** After a failed statement Postgres refuses all others (25P02): the handler caught the error and went on. */
function rethrowAborted(error: unknown): never {
  if (!(error instanceof Error && 'code' in error && error.code === '25P02')) throw error;
  throw new HandlerError(
    'ERR_HANDLER_FAILED',
    'A statement failed and the handler caught its error, but Postgres has aborted the transaction. Do not catch the error, or use ON CONFLICT or a SAVEPOINT.',
    { cause: error },
  );
}

interface ClaimRow {
  readonly state: 'leased' | 'done' | 'dead';
  readonly attempts: number;
  /** `null` if the event has no token. */
  readonly won: boolean | null;
  readonly left_ms: number | null;
}

interface RecordRow {
  readonly id: string;
  readonly state: RecordResult;
}

interface PollRow {
  readonly watermark: number | null;
  readonly largest: number;
}

interface EventRow {
  readonly id: string;
  readonly type: string;
  readonly state: InboxState;
  readonly attempts: number;
  readonly source: Origin;
  readonly last_error: string | null;
  readonly event: string | null;
  readonly received_ms: number;
  readonly updated_ms: number;
  readonly due_ms: number | null;
}

function toRecord(row: EventRow): InboxRecord {
  return {
    id: row.id,
    type: row.type,
    state: row.state,
    attempts: row.attempts,
    origin: row.source,
    receivedAt: row.received_ms,
    updatedAt: row.updated_ms,
    dueAt: row.due_ms,
    lastError: row.last_error,
    event: row.event === null ? null : (JSON.parse(row.event) as UnknownEvent),
  };
}
