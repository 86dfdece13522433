import { boolean, readOptions } from '../core/options.js';
import type { Inbox, InboxOperations, Synchronous } from '../core/ports.js';
import { RUNTIME, toStoreRuntime } from '../core/runtime.js';
import { PREFIX_RULE } from './name-rule.js';
import { createSqliteInbox, type SynchronousInboxOptions } from './sqlite-inbox.js';
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

/**
 * Stores events in the SQLite storage of a Cloudflare Durable Object. It creates and migrates its tables, which are
 * named `prefix_…`. Call it in the object's constructor. Cloudflare holds back an object's responses and requests
 * until its earlier writes are on disk, so no event that got a 200 or 202 is lost.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is invalid or a newer release wrote the tables. Errors of
 * the storage are passed through, for example when the class has no SQLite storage.
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
    // Durable Objects keep the statements that they have prepared.
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
      // Without await: what a Durable Object writes in one turn of its event loop is on disk together.
      share: async (work) => storage.transactionSync(work),
      // The storage refuses COMMIT and ROLLBACK inside the effect.
      own: (begin, effect) =>
        storage.transactionSync(() => {
          begin();
          effect();
        }),
    },
  });
}
