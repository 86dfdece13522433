/** The inbox over an SQLite database, however it is opened. */

import { type Awaitable, isPromise } from '../core/awaitable.js';
import { PermanentError } from '../core/errors.js';
import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import {
  type Claim,
  EMPTY_POLL_STATE,
  type Inbox,
  type InboxOperations,
  type Lease,
  type RecordResult,
} from '../core/ports.js';
import type { Runtime } from '../core/runtime.js';
import {
  readCountOptions,
  readDiscardOptions,
  readImportedIds,
  readListOptions,
  readPruneOptions,
  readRequeueOptions,
  unknownAfter,
} from './operation-options.js';
import { type EventRow, parseJson, toCounts, toPollState, toRecord, toStored } from './rows.js';
import { prepareStatements } from './sqlite-sql.js';
import type { SqliteLike } from './sqlite-tables.js';

/** The transactions of a database. */
export interface Transactions {
  /**
   * Runs a step in a transaction, or in one that it shares, and resolves with its result after the commit.
   *
   * @param options.flush - whether the commit waits for the disk. @default true
   */
  share<Value>(step: () => Value, options?: { readonly flush: boolean }): Promise<Value>;
  /**
   * Runs an effect in a transaction of its own, immediately, and commits it if `complete` then returns `true`.
   *
   * @throws {PermanentError} when the effect ended the transaction.
   */
  own(effect: () => void, complete: () => boolean): boolean;
}

interface SqliteInboxSettings<Tx> {
  /** A database whose tables are migrated. */
  readonly db: SqliteLike;
  /** The `ctx.tx` of handlers; `undefined` for an inbox without transactions. */
  readonly tx: Tx | undefined;
  readonly durable: boolean;
  readonly runtime: Runtime;
  readonly transactions: Transactions;
}

type StoreSettings = Parameters<Inbox['record']>[1] & { readonly state: 'received' | 'parked' | 'done' };

/** How many events one step prunes: other processes wait until it is committed. */
const PRUNE_BATCH = 1_000;

export function createSqliteInbox<Tx>({
  db,
  tx,
  durable,
  runtime,
  transactions,
}: SqliteInboxSettings<Tx>): Inbox<Tx> & InboxOperations {
  const sql = prepareStatements(db);

  /** Runs a step with the time, in whole ms like the columns. */
  function step<Value>(work: (at: number) => Value, options?: { readonly flush: boolean }): Promise<Value> {
    return transactions.share(() => work(Math.round(runtime.now())), options);
  }

  /** Durations can have a fraction. */
  const sum = (at: number, ms: number) => Math.round(at + ms);

  function settle(
    { id, token }: Lease,
    { at, state, retryAfterMs, error }: Settled & { readonly at: number },
  ): boolean {
    const dueAt = retryAfterMs === null ? null : sum(at, retryAfterMs);
    const [settled] = sql.settle(at, at, state, error, at, state, error, dueAt, id, token);
    if (settled === undefined) return false;
    if (settled.key !== null) sql.releaseKey(at, at, settled.key);
    return true;
  }

  /** Stores the new events of a page in one state, and answers for each event. */
  function store(
    events: readonly UnknownEvent[],
    { state, dueInMs, origin, json = [], keys = [], traceparent }: StoreSettings,
  ) {
    // Encoded before the step: an event that cannot be encoded must not fail the other steps.
    const page = events.map((event, index) => ({
      ...{ id: event.id, type: event.type, text: json[index] ?? encodeEvent(event) },
      keyColumns: toKeyColumns(event, keys[index]),
    }));
    return step((at) => {
      const dueAt = dueInMs === null ? null : sum(at, dueInMs);
      const results = page.map(({ id, type, text, keyColumns }): RecordResult => {
        const [stored] = sql.record(
          ...[id, type, origin, traceparent ?? null, text, at, at, dueAt, ...keyColumns, state],
        );
        const [known] = stored === undefined ? sql.own(id) : [];
        return known?.state ?? 'new';
      });
      // Its claim did not wait for the disk, and the delivery is answered 202.
      if (results.some((result) => result === 'received' || result === 'leased')) sql.flush();
      return results;
    });
  }

  return {
    durable,

    async claim(event, { leaseMs, origin, json = encodeEvent(event), early = false, key, traceparent }) {
      const { id, type } = event;
      const first = [id, type, origin, traceparent ?? null, json] as const;
      const keyColumns = toKeyColumns(event, key);
      const [newKey] = keyColumns;
      const claim = (at: number): Claim => {
        sql.moveBack(at, at, at);
        const rows = sql.contenders(id, newKey, id);
        const { state, due_at: dueAt } = rows.find(({ role }) => role === 'own') ?? NEW;
        if (state === 'done' || state === 'dead') return { state };
        const retryAfterMs = (dueAt ?? 0) - at;
        const waits = state === 'leased' || (state === 'failed' && !early);
        if (waits && retryAfterMs > 0) return { state, retryAfterMs };

        const holder = rows.find(({ role }) => role === 'holder');
        const heldUntil = holder?.due_at ?? 0;
        if (heldUntil > at) {
          sql.wait(...first, at, at, heldUntil, ...keyColumns);
          return { state: 'waiting', retryAfterMs: heldUntil - at };
        }
        const leasedUntil = sum(at, leaseMs);
        if (holder !== undefined) sql.passOver(leasedUntil, at, holder.rowid);
        const token = runtime.uuid();
        const [leased] = sql.lease(...first, at, at, leasedUntil, ...keyColumns, token);
        const lease = { id, token, attempt: leased?.attempts ?? 1, key };
        return { state: 'claimed', lease: { ...lease, traceparent: leased?.traceparent ?? undefined } };
      };
      // The event is answered after its completion, which waits for the disk.
      return step(claim, { flush: false });
    },

    async complete(lease) {
      return step((at) => settle(lease, { at, ...DONE }));
    },

    ...(tx !== undefined && {
      transaction(lease: Lease, effect: (tx: Tx) => Awaitable<void>) {
        return transactions.own(
          () => assertSynchronous(effect(tx)),
          () => settle(lease, { at: Math.round(runtime.now()), ...DONE }),
        );
      },
    }),

    async fail(lease, { retryAfterMs, error: message }) {
      const error = JSON.stringify(message.slice(0, 1_000));
      const state = retryAfterMs === null ? 'dead' : 'failed';
      return step((at) => settle(lease, { at, state, retryAfterMs, error }));
    },

    async record(events, options) {
      return store(events, { ...options, state: options.dueInMs === null ? 'parked' : 'received' });
    },

    async ignore(events, options) {
      return store(events, { ...options, state: 'done', dueInMs: null });
    },

    async takeDue({ limit, visibilityTimeoutMs, types, onDamaged }) {
      if (limit < 1) return [];
      const taken = await step((at) => {
        sql.moveBack(at, at, at);
        const visibleAt = sum(at, visibilityTimeoutMs);
        const due = sql.due(JSON.stringify(types), at, limit, limit);
        return due.flatMap(({ rowid }) => sql.take(visibleAt, at, rowid));
      });
      return toStored(taken, onDamaged);
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

    async lastPoller() {
      return sql.lastPoller()[0]?.holder ?? null;
    },

    async find(id) {
      return sql.find(id).map(decode)[0];
    },

    async list(options) {
      const query = readListOptions(options);
      const rows = sql.list(query);
      const { after } = query;
      if (after !== undefined && rows.length === 0 && sql.own(after).length === 0) throw unknownAfter(after);
      return rows.map(decode);
    },

    async count(filter) {
      return toCounts(filter === undefined ? sql.count() : sql.countSelected(readCountOptions(filter)));
    },

    async requeue(which) {
      const options = readRequeueOptions(which);
      return step((at) => sql.requeue(options, at));
    },

    async discard(options) {
      const { by, reason, ...which } = readDiscardOptions(options);
      return step((at) => sql.discard(which, at, JSON.stringify({ by, reason })));
    },

    async importDone(ids) {
      let added = 0;
      for (const page of readImportedIds(ids)) {
        added += await step((at) => sql.importDone(at, at, JSON.stringify(page)).length);
      }
      return added;
    },

    async prune(options) {
      const { olderThanMs } = readPruneOptions(options);
      for (let pruned = 0; ; ) {
        const { length } = await step((at) => sql.prune(at - olderThanMs, PRUNE_BATCH));
        pruned += length;
        if (length < PRUNE_BATCH) return pruned;
      }
    },
  };
}

/** Thrown inside a transaction to roll it back. */
export const LEASE_LOST = new Error('The lease is lost.');

/** How an attempt ended. */
interface Settled {
  readonly state: 'done' | 'failed' | 'dead';
  readonly retryAfterMs: number | null;
  readonly error: string | null;
}

const DONE: Settled = { state: 'done', retryAfterMs: null, error: null };

/** @throws {PermanentError} for a promise: the transaction ends before it does. */
function assertSynchronous(running: Awaitable<void>): void {
  if (!isPromise(running)) return;
  running.catch(() => undefined);
  throw new PermanentError(
    'The handler returned a promise, and its transaction was rolled back. With `transactional: true`, handlers over SQLite must be synchronous: remove `async` and `await`, or the option.',
  );
}

/** `last_error` is JSON: drivers cut strings at NUL and replace lone surrogates. */
const decode = (row: EventRow) =>
  toRecord({ ...row, error: row.error && String(parseJson(row.error) ?? row.error) });

/** What `sql.own` has for an event that is not there. */
const NEW = { state: 'received', due_at: null } as const;

/** The columns `key` and `created_at`: the events of a key are in the order of their creation. */
function toKeyColumns(event: UnknownEvent, key: string | undefined) {
  return key === undefined ? ([null, null] as const) : ([key, createdAtMs(event)] as const);
}
