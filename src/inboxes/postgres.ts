/** The inbox in Postgres: one truth for any number of receivers and workers. */
import { HandlerError } from '../core/errors.js';
import { encodeEvent, type UnknownEvent } from '../core/events.js';
import type { Inbox, InboxOperations, Lease, RecordResult } from '../core/inbox.js';
import { ask, type PgLike, type PgPoolLike, type PgTransactionsLike, type PgTx } from './postgres-client.js';
import { postgresOperations } from './postgres-operations.js';
import { namePostgresTables, type PostgresSchemaOptions } from './postgres-schema.js';
import { writePostgresStatements } from './postgres-statements.js';
import { guardTx, type PgTransactional, transact } from './postgres-transaction.js';

export {
  fromPostgresJs,
  type PgClientLike,
  type PgLike,
  type PgPoolLike,
  type PgTransactionsLike,
  type PgTx,
  type PostgresJsLike,
} from './postgres-client.js';
export { migratePostgres, type PostgresSchemaOptions, postgresMigrations } from './postgres-schema.js';

/** Options of {@link postgresInbox}. */
export interface PostgresInboxOptions extends PostgresSchemaOptions {
  /**
   * Whether handlers get `ctx.tx`, the open transaction in which the event is marked done as well, so that
   * what they write through it takes effect exactly once.
   *
   * It holds one of the pool's connections while a handler runs: give the pool a few more than run at once.
   *
   * @default false
   */
  readonly transactional?: boolean;
}

/**
 * Makes an inbox of two tables; see {@link migratePostgres}. Claiming, settling and recording take one round
 * trip each. The caller owns the pool: its size, its timeouts, its `error` listener, its end.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the schema's name is not plain.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(new Pool({ connectionString }), { transactional: true });
 * ```
 */
export function postgresInbox(
  pool: PgPoolLike | PgTransactionsLike,
  options: PostgresInboxOptions & { readonly transactional: true },
): Inbox<PgTx> & InboxOperations;
export function postgresInbox(
  pool: PgLike,
  options?: PostgresInboxOptions & { readonly transactional?: false },
): Omit<Inbox, 'transaction'> & InboxOperations;
export function postgresInbox(
  pool: PgLike,
  { schema, transactional = false }: PostgresInboxOptions = {},
): Inbox<PgTx> & InboxOperations {
  const statements = writePostgresStatements(namePostgresTables({ schema }));

  async function settle(client: PgLike, { id, token }: Lease): Promise<boolean> {
    return (await ask(client, { text: statements.complete, values: [id, token] })).length > 0;
  }

  async function transaction(lease: Lease, effect: (tx: PgTx) => Promise<void>): Promise<boolean> {
    const { id, token } = lease;
    // Thrown, because only a rejection makes every driver roll back.
    const lost = new Error('The lease is lost.');
    try {
      // The overloads let `transactional` be set only with a pool that can.
      await transact(pool as PgTransactional, async (client) => {
        const held = await ask(client, { text: statements.fence, values: [id, token] });
        if (held.length === 0) throw lost;
        const guarded = guardTx(client);
        try {
          await effect(guarded.tx);
        } finally {
          guarded.end();
        }
        if (!(await settle(client, lease).catch(refuseAborted))) throw lost;
      });
      return true;
    } catch (error) {
      if (error === lost) return false;
      throw error;
    }
  }

  return {
    durable: true,

    async claim(event, { leaseMs, origin, json = encodeEvent(event) }) {
      const { id, type } = event;
      const token = crypto.randomUUID();
      const values = [id, type, origin, leaseMs, token, json];
      const [row] = await ask<ClaimRow>(pool, { text: statements.claim, values });
      if (row === undefined) throw new Error(`Postgres answered the claim of ${id} without a row.`);
      const { state, attempts, won, left_ms } = row;
      if (won) return { state: 'claimed', lease: { id, token, attempt: attempts } };
      if (state !== 'leased') return { state };
      return { state, retryAfterMs: Math.max(1, left_ms ?? 0) };
    },

    complete: (lease) => settle(pool, lease),

    ...(transactional && { transaction }),

    async fail({ id, token }, { retryAfterMs, error }) {
      // Postgres keeps no U+0000 in text.
      const words = error.slice(0, 1_000).replaceAll('\0', '\ufffd');
      const values = [id, token, retryAfterMs, words];
      return (await ask(pool, { text: statements.fail, values })).length > 0;
    },

    async record(events, { dueInMs, origin }) {
      const found = new Map<string, RecordResult>();
      const firsts = new Map<string, UnknownEvent>();
      for (const event of events) if (!firsts.has(event.id)) firsts.set(event.id, event);
      // More than once only for ids that another page or claim was just recording.
      while (found.size < firsts.size) {
        const page = [...firsts.values()].filter(({ id }) => !found.has(id));
        const columns = [page.map(({ id }) => id), page.map(({ type }) => type), page.map(encodeEvent)];
        const values = [...columns, dueInMs, origin];
        const rows = await ask<RecordRow>(pool, { text: statements.record, values });
        for (const { id, state } of rows) found.set(id, state);
      }
      const twin = dueInMs === null ? 'parked' : 'received';
      return events.map(({ id }) => {
        const state = found.get(id) ?? twin;
        if (state === 'new') found.set(id, twin);
        return state;
      });
    },

    async takeDue({ limit, visibilityTimeoutMs, types }) {
      const values = [limit, visibilityTimeoutMs, types];
      const rows = await ask<{ readonly event: string }>(pool, { text: statements.takeDue, values });
      return rows.map(({ event }) => JSON.parse(event) as UnknownEvent);
    },

    async acquirePoll({ holder, leaseMs }) {
      const [row] = await ask<PollRow>(pool, { text: statements.acquirePoll, values: [holder, leaseMs] });
      return row ? { watermark: row.watermark, largest: row.largest } : null;
    },

    async savePoll({ watermark, largest }, { holder, leaseMs }) {
      const values = [holder, leaseMs, watermark, largest];
      return (await ask(pool, { text: statements.savePoll, values })).length > 0;
    },

    ...postgresOperations(pool, { statements }),
  };
}

/** Postgres takes no statement after one that failed (25P02): the handler has heard of that, and went on. */
function refuseAborted(error: unknown): never {
  if (!(error instanceof Error && 'code' in error && error.code === '25P02')) throw error;
  throw new HandlerError(
    'ERR_HANDLER_FAILED',
    'A statement of the handler failed and the handler went on, but its transaction could not. Let the error through, or use ON CONFLICT or a SAVEPOINT.',
    { cause: error },
  );
}

interface ClaimRow {
  readonly state: 'leased' | 'done' | 'dead';
  readonly attempts: number;
  /** Null in an event without a token. */
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
