/** The inbox over an SQLite database, however it is opened. */

import { createdAtMs, encodeEvent, type UnknownEvent } from '../core/events.js';
import {
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

/** Runs a step in a transaction, or in one that it shares, and resolves with its result after the commit. */
export type RunStep = <Value>(step: () => Value) => Promise<Value>;

interface SqliteInboxSettings {
  /** A database whose tables are migrated. */
  readonly db: SqliteLike;
  readonly durable: boolean;
  readonly runtime: Runtime;
  readonly inTransaction: RunStep;
}

type StoreSettings = Parameters<Inbox['record']>[1] & { readonly state: 'received' | 'parked' | 'done' };

/** How many events one step prunes: other processes wait until it is committed. */
const PRUNE_BATCH = 1_000;

/**
 * How many events of keys one step makes wait: other steps and processes wait until it is committed. With fewer, the
 * commits take most of the time.
 */
const PASS_BATCH = 5_000;

export function createSqliteInbox({
  db,
  durable,
  runtime,
  inTransaction,
}: SqliteInboxSettings): Omit<Inbox, 'transaction'> & InboxOperations {
  const sql = prepareStatements(db);

  /** Runs a step with the time, in whole ms like the columns. */
  function step<Value>(work: (at: number) => Value): Promise<Value> {
    return inTransaction(() => work(Math.round(runtime.now())));
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
      leaveKey(at, settled.key, null);
      return true;
    });
  }

  /** After an attempt has ended or a claim has replaced the key of an event: the others may wait for that event. */
  function leaveKey(at: number, oldKey: string | null, key: string | null): void {
    if (oldKey !== key) sql.releaseKey(at, at, oldKey);
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
      return page.map(({ id, type, text, keyColumns }): RecordResult => {
        const [stored] = sql.record(
          ...[id, type, origin, traceparent ?? null, text, at, at, dueAt, ...keyColumns, state],
        );
        const [known] = stored === undefined ? sql.own(id) : [];
        return known?.state ?? 'new';
      });
    });
  }

  return {
    durable,

    async claim(event, { leaseMs, origin, json = encodeEvent(event), early = false, key, traceparent }) {
      const { id, type } = event;
      const first = [id, type, origin, traceparent ?? null, json] as const;
      const keyColumns = toKeyColumns(event, key);
      const [newKey] = keyColumns;
      return step((at) => {
        sql.moveBack(at, at, at);
        const rows = sql.contenders(id, newKey, id);
        const { state, due_at: dueAt, key: oldKey } = rows.find(({ role }) => role === 'own') ?? NEW;
        if (state === 'done' || state === 'dead') return { state };
        const retryAfterMs = (dueAt ?? 0) - at;
        const waits = state === 'leased' || (state === 'failed' && !early);
        if (waits && retryAfterMs > 0) return { state, retryAfterMs };

        const holder = rows.find(({ role }) => role === 'holder');
        const heldUntil = holder?.due_at ?? 0;
        if (heldUntil > at) {
          sql.wait(...first, at, at, heldUntil, ...keyColumns);
          leaveKey(at, oldKey, newKey);
          return { state: 'waiting', retryAfterMs: heldUntil - at };
        }
        const leasedUntil = sum(at, leaseMs);
        if (holder !== undefined) sql.passOver(leasedUntil, at, JSON.stringify([holder.rowid]));
        const token = runtime.uuid();
        const [leased] = sql.lease(...first, at, at, leasedUntil, ...keyColumns, token);
        leaveKey(at, oldKey, newKey);
        const lease = { id, token, attempt: leased?.attempts ?? 1, key };
        return { state: 'claimed', lease: { ...lease, traceparent: leased?.traceparent ?? undefined } };
      });
    },

    async complete(lease) {
      return settle(lease, { state: 'done', retryAfterMs: null, error: null });
    },

    async fail(lease, { retryAfterMs, error: message }) {
      const error = JSON.stringify(message.slice(0, 1_000));
      return settle(lease, { state: retryAfterMs === null ? 'dead' : 'failed', retryAfterMs, error });
    },

    async record(events, options) {
      return store(events, { ...options, state: options.dueInMs === null ? 'parked' : 'received' });
    },

    async ignore(events, options) {
      return store(events, { ...options, state: 'done', dueInMs: null });
    },

    async takeDue({ limit, visibilityTimeoutMs, types, onDamaged }) {
      if (limit < 1) return [];
      const typeList = JSON.stringify(types);
      // Events that one step makes wait are not due in the next one.
      let asOf = Number.POSITIVE_INFINITY;

      /** The events that are due, the longest due first. Nothing is written while they are read. */
      const due = () =>
        inPages(limit, (size, offset) => sql.due(typeList, asOf, offset + size, size, offset));

      function take(at: number) {
        sql.moveBack(at, at, at);
        asOf = Math.min(asOf, at);
        const visibleAt = sum(at, visibilityTimeoutMs);
        const rowids: number[] = [];
        const passed = new Map<string, { readonly others: readonly number[]; readonly waitUntil: number }>();
        let room = PASS_BATCH;
        let isAll = true;
        for (const { rowid, key } of due()) {
          if (key === null) {
            rowids.push(rowid);
          } else if (!passed.has(key)) {
            const [{ due_at: heldUntil } = { due_at: 0 }] = sql.leaseOfKey(key);
            // In the order of their creation.
            const others = sql.dueOfKey(key, typeList, asOf, room).map((row) => row.rowid);
            isAll = others.length < room;
            let waitUntil = heldUntil;
            if (heldUntil <= at) {
              const first = others.splice(0, 1);
              // If there can be more, the first one stays due: the next step compares it with those.
              if (isAll) rowids.push(...first);
              waitUntil = isAll ? visibleAt : Math.max(visibleAt, asOf + 1);
            }
            passed.set(key, { others, waitUntil });
            room -= others.length;
          }
          if (!isAll || rowids.length === limit) break;
        }
        for (const { others, waitUntil } of passed.values()) {
          sql.passOver(waitUntil, at, JSON.stringify(others));
        }
        return { isAll, taken: rowids.flatMap((each) => sql.take(visibleAt, at, each)) };
      }

      for (;;) {
        const { isAll, taken } = await step(take);
        if (isAll || taken.length > 0) return toStored(taken, onDamaged);
      }
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

/** `last_error` is JSON: drivers cut strings at NUL and replace lone surrogates. */
const decode = (row: EventRow) =>
  toRecord({ ...row, error: row.error && String(parseJson(row.error) ?? row.error) });

/** What `sql.own` has for an event that is not there. */
const NEW = { state: 'received', due_at: null, key: null } as const;

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
