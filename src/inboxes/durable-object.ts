import { boolean, readOptions, required, rule } from '../core/options.js';
import type { Inbox, InboxOperations, Synchronous } from '../core/ports.js';
import { RUNTIME, toRuntime } from '../core/runtime.js';
import { createSqliteInbox, PREFIX_RULE, type SynchronousInboxOptions } from './sqlite-inbox.js';
import { migrate, type SqliteLike } from './sqlite-tables.js';

export type { Inbox, InboxOperations } from '../core/ports.js';

/** The part of `ctx.storage`, a `DurableObjectStorage` with SQLite, that the inbox uses. */
export interface DurableObjectStorageLike {
  readonly sql: {
    exec(query: string, ...bindings: (string | number | null)[]): { toArray(): unknown[] };
  };
  transactionSync<Value>(work: () => Value): Value;
}

/** Options of {@link durableObjectInbox}. */
export interface DurableObjectInboxOptions extends SynchronousInboxOptions {}

const STORAGE = rule('the `ctx.storage` of a Durable Object whose class has SQLite storage', (value) => {
  try {
    const { sql, transactionSync } = value as DurableObjectStorageLike;
    return typeof sql.exec === 'function' && typeof transactionSync === 'function';
  } catch {
    // Without SQLite storage, `sql` throws when it is read.
    return false;
  }
});

/**
 * Keeps events in the SQLite storage of a Cloudflare Durable Object, in tables called `prefix_…`, which it creates
 * and migrates. The object is the only process that uses them.
 *
 * It takes the whole `ctx.storage`, and not `ctx.storage.sql` alone: a claim, like every operation, reads and then writes,
 * and is rolled back as a whole if it fails. Durable Objects refuse `BEGIN` through `sql`; only
 * `storage.transactionSync` gives a transaction.
 *
 * Cloudflare holds back the responses and requests of an object until what it wrote before is on disk, so an event that
 * was answered 200 or 202 is kept. Call it in the constructor of the object.
 *
 * @param storage - `ctx.storage`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is wrong, `storage` has no SQLite, or a newer release wrote
 * the tables. Errors of the storage pass through.
 *
 * @example
 * ```ts
 * export class Hooks extends DurableObject {
 *   readonly receiver = createReceiver({ secret, handlers, inbox: durableObjectInbox(this.ctx.storage) });
 * }
 * ```
 */
export function durableObjectInbox<Storage extends DurableObjectStorageLike>(
  storage: Storage,
  options: DurableObjectInboxOptions & { readonly transactional: true },
): Inbox<Synchronous<Storage>> & InboxOperations;
export function durableObjectInbox(
  storage: DurableObjectStorageLike,
  options?: DurableObjectInboxOptions,
): Inbox & InboxOperations;
export function durableObjectInbox(
  storage: DurableObjectStorageLike,
  options: DurableObjectInboxOptions = {},
): Inbox<unknown> & InboxOperations {
  const { prefix, transactional, runtime } = readOptions('durableObjectInbox', options, {
    prefix: PREFIX_RULE,
    transactional: boolean(false),
    runtime: RUNTIME,
  });
  readOptions('durableObjectInbox', { storage }, { storage: required(STORAGE) });
  const db: SqliteLike = {
    exec: (query) => storage.sql.exec(query),
    // Durable Objects keep the statements that they have prepared.
    prepare: (query) => ({
      all: (...values) => storage.sql.exec(query, ...(values as (string | number | null)[])).toArray(),
    }),
  };
  storage.transactionSync(() => migrate(db, { prefix, inbox: 'durableObjectInbox' }));
  return createSqliteInbox<unknown>({
    db,
    prefix,
    tx: transactional ? storage : undefined,
    durable: true,
    runtime: toRuntime(runtime),
    transactions: {
      // Without await: what a Durable Object writes in one turn of its event loop is on disk together.
      share: async (work) => storage.transactionSync(work),
      // The storage refuses a COMMIT or ROLLBACK of the effect.
      own: (begin, effect) =>
        storage.transactionSync(() => {
          begin();
          effect();
        }),
    },
  });
}
