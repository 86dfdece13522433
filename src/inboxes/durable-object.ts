import { boolean, readOptions } from '../core/options.js';
import type { Inbox, InboxOperations, Synchronous } from '../core/ports.js';
import { RUNTIME, toStoreRuntime } from '../core/runtime.js';
import { PREFIX_RULE } from './name-rule.js';
import { createSqliteInbox, type SynchronousInboxOptions } from './sqlite-inbox.js';
import { migrate, type SqliteLike } from './sqlite-tables.js';

export type { Inbox, InboxOperations } from '../core/ports.js';

/** The methods that the inbox uses on `ctx.storage`, the SQLite storage of a Durable Object. */
export interface DurableObjectStorageLike {
  readonly sql: {
    exec(query: string, ...bindings: (string | number | null)[]): { toArray(): unknown[] };
  };
  transactionSync<Value>(work: () => Value): Value;
}

/** Options of {@link durableObjectInbox}. */
export interface DurableObjectInboxOptions extends SynchronousInboxOptions {}

/**
 * Stores events in the SQLite storage of a Cloudflare Durable Object. Call this function in the object's constructor. The
 * function creates and migrates the inbox's tables, whose names start with `prefix`. Cloudflare holds an object's responses
 * and requests back until the object's earlier writes are on disk, so an event isn't lost once the response is 200 or 202.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is invalid, or when a newer release wrote the tables. Errors
 * from the storage are passed through, for example if the class has no SQLite storage.
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
  const db: SqliteLike = {
    exec: (query) => storage.sql.exec(query),
    // Durable Objects cache prepared statements themselves.
    prepare: (query) => ({
      all: (...values) => storage.sql.exec(query, ...(values as (string | number | null)[])).toArray(),
      run(...values) {
        return { changes: db.prepare(`${query} RETURNING 1`).all(...values).length };
      },
    }),
  };
  storage.transactionSync(() => migrate(db, { prefix, inbox: 'durableObjectInbox' }));
  return createSqliteInbox<unknown>({
    db,
    prefix,
    tx: transactional ? storage : undefined,
    durable: true,
    runtime: toStoreRuntime(runtime),
    transactions: {
      // There is no `await`, because all writes of a Durable Object in one turn of its event loop reach the disk together.
      share: async (work) => storage.transactionSync(work),
      // The storage itself rejects a COMMIT or ROLLBACK in `effect`.
      own: (begin, effect) =>
        storage.transactionSync(() => {
          begin();
          effect();
        }),
    },
  });
}
