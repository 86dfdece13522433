import { type Awaitable, isPromise } from '../core/awaitable.js';
import { PermanentError, SYNCHRONOUS_FIX } from '../core/errors.js';
import type { Inbox, InboxOperations, Lease } from '../core/ports.js';
import { type Runtime, type RuntimeOptions, watchClock } from '../core/runtime.js';
import { type AttemptEnd, type ClaimRow, createInbox, DONE, type StoreOps } from './create-inbox.js';
import { toNote, toRecord } from './rows.js';
import { prepareStatements } from './sqlite-sql.js';
import type { SqliteLike } from './sqlite-tables.js';

/** Options that the SQLite inboxes share. */
export interface SynchronousInboxOptions {
  /**
   * The prefix of the names of the inbox's tables. The prefix can contain up to 40 letters, digits and underscores, and must
   * not start with a digit. Inboxes with different prefixes share nothing. SQLite ignores the case of the prefix.
   *
   * @default 'stablehooks'
   */
  readonly prefix?: string | undefined;
  /**
   * Whether handlers run in a transaction and receive the connection or storage as `ctx.tx`. A handler's writes are
   * committed in the same transaction that marks its event as done. Handlers must be synchronous, because the drivers are
   * synchronous. If a handler returns a promise, its writes are rolled back and its event is dead-lettered.
   *
   * @default false
   */
  readonly transactional?: boolean | undefined;
  /**
   * Replaces the clock and randomness in tests. All processes that share a file must use the same clock.
   *
   * @default those of the platform
   */
  readonly runtime?: RuntimeOptions | undefined;
}

export interface Transactions {
  /** Other operations can share the transaction. The commit waits for the disk if any of them asks for a flush. */
  share<Value>(work: () => Value, options?: { readonly flush: boolean }): Promise<Value>;
  /** @throws {PermanentError} if `effect` ended the transaction. */
  own(begin: () => void, effect: () => void): void;
}

interface SqliteInboxSettings<Tx> {
  readonly db: SqliteLike;
  readonly prefix: string;
  /** Handlers receive `undefined` if they don't run in transactions. */
  readonly tx: Tx | undefined;
  readonly durable: boolean;
  readonly runtime: Runtime;
  readonly transactions: Transactions;
}

export function createSqliteInbox<Tx>({
  db,
  prefix,
  tx,
  durable,
  runtime,
  transactions,
}: SqliteInboxSettings<Tx>): Inbox<Tx> & InboxOperations {
  const sql = prepareStatements(db, prefix);

  const held = new Set<string>();
  const now = watchClock(runtime, (ms) => sql.shiftLeases({ held: [...held], ms: Math.round(ms) }));

  /** Passes the current time in whole ms, because the columns contain integers. */
  function op<Value>(work: (at: number) => Value, options?: { readonly flush: boolean }): Promise<Value> {
    return transactions.share(() => work(Math.round(now())), options);
  }

  /** A duration can have a fraction. */
  const sum = (at: number, ms: number) => Math.round(at + ms);

  function finish(
    { id, token, first }: Lease,
    { result, retryAfterMs, error, maxAgeMs }: AttemptEnd,
    at: number,
    isOpen = 0,
  ): boolean | 'dead' {
    if (first !== undefined) {
      if (result === 'done') return sql.take({ ...first, id, token, at }) > 0;
      const state = result === 'later' ? 'received' : result;
      const dueAt = retryAfterMs === null ? null : sum(at, retryAfterMs);
      const attempts = result === 'later' ? 0 : 1;
      const values = { ...first, id, token, at, ended: result, state, error, dueAt, attempts };
      return sql.failFirst(values).length > 0;
    }
    const isTooOld = maxAgeMs !== null && (sql.own({ id })[0]?.received_at ?? at) <= at - maxAgeMs;
    const ended = isTooOld ? 'dead' : result;
    const state = ended === 'later' ? 'received' : ended;
    const dueAt = retryAfterMs === null || isTooOld ? null : sum(at, retryAfterMs);
    const [finished] = sql.finish({ id, token, at, ended, state, error, dueAt, isOpen });
    if (finished === undefined) return false;
    if (finished.key !== null) sql.releaseKey({ at, key: finished.key });
    return isTooOld ? 'dead' : true;
  }

  const ops: StoreOps<Tx> = {
    durable,
    find: (id) => sql.find({ id }).map(toRecord)[0],
    list: (query) => sql.list(query).map(toRecord),
    count: (selection) => (selection === undefined ? sql.countAll() : sql.count(selection)),
    requeue: (which, who) => op((at) => sql.requeue(which, { at, ...who }).length),
    discard: (which, who) => op((at) => sql.discard(which, { at, ...who }).length),
    endLeases: (which) => op((at) => sql.endLeases(which, { at }), { flush: false }),
    importDone: (ids) => op((at) => sql.importDone({ at, ids }).length),
    prune: (olderThanMs, limit) =>
      op((at) => {
        const ids = sql.prune({ before: at - olderThanMs, limit }).map(({ id }) => id);
        if (ids.length > 0) sql.forgetSteps({ ids });
        return ids.length;
      }),
    steps: (id, token) => sql.steps({ id, token }),
    stateSteps: (id, done, again) =>
      op(() => {
        sql.endSteps({ id, names: done });
        sql.forgetUnknownSteps({ id, names: again });
      }),

    claim: ({ early, leaseMs, token, ...event }) =>
      op(
        (at) => {
          const rows = sql.contenders(event);
          const { state, due_at: dueAt } = rows.find(({ role }) => role === 'own') ?? {};
          if (state === 'done' || state === 'dead') return refused(state);
          const retryAfterMs = (dueAt ?? 0) - at;
          const waits = state === 'leased' || (state === 'failed' && !early);
          if (waits && retryAfterMs > 0) return refused(state, retryAfterMs);

          const holder = rows.find(({ role }) => role === 'holder');
          const heldUntil = holder?.due_at ?? 0;
          const isHeld = heldUntil > at;
          const until = isHeld ? heldUntil : sum(at, leaseMs);
          if (holder !== undefined && !isHeld) {
            sql.receive({ dueAt: until, at, waiting: 1, rowid: holder.rowid });
          }
          const [stored] = sql.claim({
            ...{ ...event, at, until },
            ...(isHeld
              ? { token: null, state: 'received', waiting: 1, attempts: 0 }
              : { token, state: 'leased', waiting: 0, attempts: 1 }),
          });
          if (isHeld) return refused('waiting', heldUntil - at);
          return { result: 'claimed', wait: null, attempts: stored?.attempts ?? 1 };
        },
        // A claim needs no flush: the response is sent only after the flushed commit that completes the event.
        { flush: false },
      ),

    finish: (lease, end) => op((at) => finish(lease, end, at)),

    ...(tx === undefined
      ? {
          saveStep: ({ id, token }, name, result) =>
            op((at) => {
              const save = result === undefined ? sql.forgetStep : sql.saveStep;
              return save({ id, token, name, at, result }).length > 0;
            }),
        }
      : {
          takesFirst: true,
          synchronous: true,

          // This method isn't async, because the transaction of a synchronous handler must itself be synchronous.
          transaction(lease, effect) {
            // Marks the event as done first, because writes that a handler commits itself must not be repeated.
            const begin = () => {
              if (!finish(lease, DONE, Math.round(runtime.now()), 1)) throw LEASE_LOST;
            };
            try {
              transactions.own(begin, () => assertSynchronous(effect(tx)));
              return true;
            } catch (error) {
              if (error === LEASE_LOST) return false;
              throw error;
            }
          },
        }),

    store: ({ events, state, dueInMs, origin }) =>
      op((at) => {
        const dueAt = dueInMs === null ? null : sum(at, dueInMs);
        const rows = events.map((event) => {
          const [stored] = sql.record({ ...event, origin, at, dueAt, state });
          const [known] = stored === undefined ? sql.own({ id: event.id }) : [];
          return { id: event.id, result: known?.state ?? ('new' as const) };
        });
        // The claim of such an event didn't wait for the disk, but the response to the delivery is a 202.
        if (rows.some(({ result }) => result === 'received' || result === 'leased')) sql.flush();
        return rows;
      }),

    takeDue({ limit, visibilityTimeoutMs, types }) {
      const take = (at: number) => {
        const dueAt = sum(at, visibilityTimeoutMs);
        const due = sql.due({ types, at, limit });
        return due.flatMap(({ rowid }) => sql.receive({ dueAt, at, waiting: 0, rowid }));
      };
      // If this commit is lost, the taken events are due again.
      return op(take, { flush: false });
    },

    readNote: (name) => toNote(sql.readNote({ name })),

    writeNote: (name, note, fence) =>
      op(
        () => (fence ? sql.writeLeased({ name, note, ...fence }) : sql.writeNote({ name, note })).length > 0,
      ),

    leaseNote: (name, { holder, leaseMs }) =>
      op((at) => sql.leaseNote({ name, holder, until: sum(at, leaseMs), at }).length > 0),
  };
  return createInbox(ops, runtime, held);
}

const LEASE_LOST = new Error('The lease is lost.');

/** @throws {PermanentError} if `running` is a promise, because the transaction ends before the promise settles. */
function assertSynchronous(running: Awaitable<void>): void {
  if (!isPromise(running)) return;
  running.catch(() => undefined);
  throw new PermanentError(
    `The handler returned a promise, so its transaction was rolled back. Writes after an \`await\` were not rolled back, so check them before you requeue the event. ${SYNCHRONOUS_FIX}`,
  );
}

const refused = (result: ClaimRow['result'], wait: number | null = null) => ({
  ...{ result, wait, attempts: null },
});
