import { ConfigError, hasCode } from '../core/errors.js';
import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import { boolean, readOptions } from '../core/options.js';
import {
  type Claim,
  EMPTY_POLL_STATE,
  type Inbox,
  type InboxCount,
  type InboxOperations,
  type Lease,
  type RecordResult,
} from '../core/ports.js';
import { RUNTIME, type RuntimeOptions, toRuntime } from '../core/runtime.js';
import {
  readCountOptions,
  readDiscardOptions,
  readImportedIds,
  readListOptions,
  readPruneOptions,
  readRequeueOptions,
  unknownAfter,
} from './operation-options.js';
import {
  type PgClientLike,
  type PgLike,
  type PgPoolLike,
  type PgTransactional,
  type PgTransactionsLike,
  POOL_RULE,
  queryRows,
  runInTransaction,
  TRANSACTIONAL_POOL_RULE,
} from './postgres-client.js';
import {
  isConflict,
  isLeaseLost,
  isLeftOpen,
  isNotMigrated,
  isReadOnly,
  leftOpen,
  rethrowCommitError,
  rolledBackAtCommit,
} from './postgres-errors.js';
import { type PostgresSchemaOptions, SCHEMA_RULE, writeStatements } from './postgres-sql.js';
import { type EventRow, type PollRow, toCounts, toPollState, toRecord, toStored } from './rows.js';
import type { SqlPart } from './selection.js';

export * from './postgres-adapters.js';
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
  /** Timers and randomness, for tests: the time is that of the server. @default those of the platform */
  readonly runtime?: RuntimeOptions | undefined;
}

type StoreSettings = Parameters<Inbox['record']>[1] & { readonly state: 'received' | 'parked' | 'done' };

/** How often a statement is sent that conflicts with others, and the longest wait in between. */
const CONFLICT_TRIES = 50;
const CONFLICT_WAIT_MS = 100;

/** How often a page is sent to record it; two are enough unless rows are hidden. */
const RECORD_ROUNDS = 5;

/** How many events one statement prunes: other statements wait for its locks. */
const PRUNE_BATCH = 5_000;

/**
 * Keeps events in tables of Postgres, which {@link migratePostgres} creates, for any number of receivers
 * and workers. Claiming, completing, failing and recording an event take one round trip each. The caller owns the
 * pool: its size, its timeouts, its `error` listener and its end. A single `Client` is refused: a transaction that
 * others have open on its connection would undo what the inbox has answered.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option or `pool` is wrong, or `transactional` is true and
 * `pool` cannot open transactions.
 *
 * @example
 * ```ts
 * const inbox = postgresInbox(new Pool({ connectionString }), { transactional: true });
 * ```
 */
export function postgresInbox<Tx = PgClientLike>(
  pool: PgPoolLike<Tx> | PgTransactionsLike<Tx>,
  options: PostgresInboxOptions & { readonly transactional: true },
): Inbox<Tx> & InboxOperations;
export function postgresInbox(
  // A Client of a driver has this method. It is refused.
  pool: PgLike & { readonly escapeLiteral?: never },
  options?: PostgresInboxOptions & { readonly transactional?: false | undefined },
): Omit<Inbox, 'transaction'> & InboxOperations;
export function postgresInbox(
  pool: PgLike,
  options: PostgresInboxOptions = {},
): Inbox<unknown> & InboxOperations {
  const { schema, transactional, ...given } = readOptions('postgresInbox', options, {
    schema: SCHEMA_RULE,
    transactional: boolean(false),
    runtime: RUNTIME,
  });
  readOptions('postgresInbox', { pool }, { pool: transactional ? TRANSACTIONAL_POOL_RULE : POOL_RULE });
  const statements = writeStatements(schema);
  const runtime = toRuntime(given.runtime);

  /** Sends one statement of its own, again if it conflicts with another: roles can have a stricter isolation level. */
  async function send<Row>(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    const sent = values.map((value) => (Array.isArray(value) ? toArrayText(value) : value));
    for (let tries = 1; ; tries++) {
      try {
        return await queryRows<Row>(pool, text, sent);
      } catch (error) {
        if (isNotMigrated(error)) throw notMigrated(schema, error);
        if (isReadOnly(error)) await closeReadOnly();
        if (isLeftOpen(error)) {
          await pool.query('ROLLBACK').catch(() => undefined);
          throw leftOpen(error);
        }
        if (!isConflict(error) || tries >= CONFLICT_TRIES) throw error;
        const waitMs = runtime.random() * Math.min(2 ** tries, CONFLICT_WAIT_MS);
        await new Promise<void>((resolve) => runtime.setTimeout(resolve, waitMs));
      }
    }
  }

  /** Sends a statement that writes, which is committed with the answer. */
  async function run<Row>(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    const statement = text.replaceAll(/\$(\d+)/g, '($$1)[$1]');
    const parameters = values.map((value) => (Array.isArray(value) ? toArrayText(value) : value));
    const [row] = await send<{ readonly answer: string }>(statements.run, [statement, parameters]);
    return JSON.parse(row?.answer ?? '[]') as readonly Row[];
  }

  /**
   * Closes a connection if its server became read-only: the next one reaches the new primary. The server closes it, because
   * data layers have no method for that.
   */
  async function closeReadOnly(): Promise<void> {
    await pool.query(CLOSE_READ_ONLY).catch(() => undefined);
  }

  const sendPart = <Row>({ text, values }: SqlPart) => send<Row>(text, values);
  const runPart = ({ text, values }: SqlPart) => run(text, values);

  async function transaction(
    { id, token, key }: Lease,
    effect: (tx: unknown) => Promise<void>,
  ): Promise<boolean> {
    let hasBegun = false;
    let hasReturned = false;
    try {
      // TRANSACTIONAL_POOL_RULE has checked the pool.
      const hasCommitted = await runInTransaction(pool as PgTransactional<unknown>, {
        begin: { text: statements.begin, values: [id, token] },
        complete: { text: statements.complete, values: [id, token, key ?? null] },
        async effect(tx) {
          hasBegun = true;
          await effect(tx);
          hasReturned = true;
        },
      });
      if (!hasCommitted && (await send(statements.isDone, [id])).length === 0) throw rolledBackAtCommit();
      return true;
    } catch (error) {
      if (isLeaseLost(error)) return false;
      if (isReadOnly(error)) await closeReadOnly();
      if (isLeftOpen(error) && !hasBegun) throw leftOpen(error);
      const isFault = hasCode(error, 'ERR_HANDLER_FAILED', 'ERR_HANDLER_PERMANENT');
      return hasReturned && !isFault ? rethrowCommitError(error) : Promise.reject(error);
    }
  }

  async function finish(
    { id, token, key }: Lease,
    state: 'done' | 'failed' | 'dead',
    {
      retryAfterMs = null,
      error = null,
    }: { readonly retryAfterMs?: number | null; readonly error?: string | null } = {},
  ): Promise<boolean> {
    const values = [id, token, key ?? null, state, retryAfterMs, error];
    const [row] = await send<{ readonly ended: string }>(statements.finish, values);
    return row?.ended === 'ended';
  }

  /** Stores the new events of a page in one state, and answers for each event. */
  async function store(
    events: readonly UnknownEvent[],
    { state, dueInMs, origin, json = [], keys = [], traceparent }: StoreSettings,
  ): Promise<readonly RecordResult[]> {
    const values = [
      events.map(({ id }) => id),
      events.map(({ type }) => type),
      events.map((event, index) => json[index] ?? encodeEvent(event)),
      state,
      dueInMs,
      origin,
      keys.map((key = '') => key),
      keys.length === 0 ? [] : events.map((event) => String(createdAtMs(event))),
      traceparent ?? null,
    ];
    const found = new Map<string, RecordResult>();
    // A second round is needed only for ids that another page or claim was inserting at the same time.
    for (let round = 1; events.some(({ id }) => !found.has(id)); round++) {
      if (round > RECORD_ROUNDS) {
        throw new Error(
          `Postgres returned no row for recorded events: an id is not valid Unicode, or rows of ${schema}.events are hidden.`,
        );
      }
      const [row] = await send<{ readonly answer: string | null }>(statements.record, values);
      const pairs = JSON.parse(row?.answer ?? '[]') as readonly (readonly [
        id: string,
        result: RecordResult,
      ])[];
      for (const [id, result] of pairs) if (!found.has(id)) found.set(id, result);
    }
    return events.map(({ id }) => {
      const result = found.get(id) ?? state;
      if (result === 'new') found.set(id, state);
      return result;
    });
  }

  return {
    durable: true,

    async claim(
      event,
      { leaseMs, origin, json = encodeEvent(event), early = false, key, traceparent = null },
    ) {
      const { id, type } = event;
      const token = runtime.uuid();
      const createdMs = key === undefined ? null : createdAtMs(event);
      // Its transaction commits after it and waits for the disk.
      const isAsync = transactional;
      const [row] = await send<ClaimRow>(statements.claim, [
        ...[id, type, origin, leaseMs, token, json, early, key ?? null, createdMs, traceparent, isAsync],
      ]);
      const { result: state, attempts, wait, traceparent: stored } = row as ClaimRow;
      if (state === 'claimed') {
        return {
          state,
          lease: { id, token, attempt: Number(attempts), key, traceparent: stored ?? undefined },
        };
      }
      if (state === 'done' || state === 'dead') return { state };
      return { state, retryAfterMs: Math.max(1, Number(wait ?? 0)) };
    },

    complete: (lease) => finish(lease, 'done'),

    ...(transactional && { transaction }),

    async fail(lease, { retryAfterMs, error }) {
      const state = retryAfterMs === null ? 'dead' : 'failed';
      return finish(lease, state, { retryAfterMs, error: storable(error.slice(0, 1_000)) });
    },

    async record(events, options) {
      return store(events, { ...options, state: options.dueInMs === null ? 'parked' : 'received' });
    },

    async ignore(events, options) {
      return store(events, { ...options, state: 'done', dueInMs: null });
    },

    async takeDue({ limit, visibilityTimeoutMs, types, onDamaged }) {
      const rows = await run<DueRow>(statements.takeDue, [limit, visibilityTimeoutMs, types]);
      return toStored(rows, onDamaged);
    },

    async acquirePoll({ holder, leaseMs }) {
      const [row] = await run<PollRow>(statements.acquirePoll, [holder, leaseMs]);
      return row === undefined ? null : toPollState(row);
    },

    async savePoll({ since, watermark, gaps, limit, oldest }, { holder, leaseMs }) {
      const values = [
        holder,
        leaseMs,
        since,
        watermark,
        JSON.stringify(gaps),
        limit,
        oldest && JSON.stringify(oldest),
      ];
      return (await run(statements.savePoll, values)).length > 0;
    },

    async pollState() {
      const [row] = await send<PollRow>(statements.pollState);
      return row === undefined ? EMPTY_POLL_STATE : toPollState(row);
    },

    async lastPoller() {
      const [row] = await send<{ readonly holder: string }>(statements.lastPoller);
      return row?.holder ?? null;
    },

    async find(id) {
      const [row] = await send<EventRow>(statements.find, [id]);
      return row && toRecord(row);
    },

    async list(options) {
      const query = readListOptions(options);
      const { after } = query;
      const rows = await sendPart<EventRow>(statements.list(query));
      if (after !== undefined && rows.length === 0 && (await send(statements.has, [after])).length === 0)
        throw unknownAfter(after);
      return rows.map(toRecord);
    },

    async count(filter) {
      if (filter === undefined) return toCounts(await send<InboxCount>(statements.count));
      return toCounts(await sendPart<InboxCount>(statements.countSelected(readCountOptions(filter))));
    },

    async requeue(which) {
      return countOf(await runPart(statements.requeue(readRequeueOptions(which))));
    },

    async discard(options) {
      const { by, reason, ...which } = readDiscardOptions(options);
      return countOf(await runPart(statements.discard(which, storable(by), storable(reason))));
    },

    async importDone(ids) {
      let added = 0;
      for (const page of readImportedIds(ids)) added += countOf(await run(statements.importDone, [page]));
      return added;
    },

    async prune(options) {
      const { olderThanMs } = readPruneOptions(options);
      let total = 0;
      for (let pruned = PRUNE_BATCH; pruned === PRUNE_BATCH; total += pruned) {
        const values = [olderThanMs, PRUNE_BATCH];
        const [row] = await run<{ readonly pruned: number }>(statements.prune, values);
        pruned = Number(row?.pruned ?? 0);
      }
      return total;
    },
  };
}

const CLOSE_READ_ONLY = `SELECT pg_terminate_backend(pg_backend_pid())
WHERE pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'`;

function notMigrated(schema: string, cause: unknown): ConfigError {
  return new ConfigError(
    `postgresInbox: the tables or functions of the schema ${schema} are missing; see the cause. Call migratePostgres(pool) at start, or run the statements of postgresMigrations(), with the same \`schema\`.`,
    { cause },
  );
}

/** A Postgres text cannot hold U+0000. */
const storable = (text: string) => text.replaceAll('\0', '\ufffd');

/** The answer of a statement that counts what it changed. */
const countOf = ([row]: readonly unknown[]) => Number((row as { readonly count: number }).count);

/** An array of strings as Postgres writes it: postgres.js with `fetch_types: false` sends no arrays. */
function toArrayText(items: readonly unknown[]): string {
  const quote = (item: unknown) =>
    item === null ? 'NULL' : `"${String(item).replaceAll(/["\\]/g, '\\$&')}"`;
  return `{${items.map(quote).join()}}`;
}

interface ClaimRow {
  readonly result: Claim['state'];
  readonly attempts: number;
  /** How long until the event can be claimed, in ms, if that is known. */
  readonly wait: number | null;
  /** The trace context that is stored with the event. */
  readonly traceparent: string | null;
}

interface DueRow {
  readonly id: string;
  readonly json: string | null;
}
