/** Runs tests for every data layer, over a Postgres of their own. */
import { PGlite, type Transaction } from '@electric-sql/pglite';
import pg from 'pg';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import type { TransactionsUnderTest } from '../../contracts/index.js';
import { startPostgres } from '../../services/postgres.js';
import type { Service } from '../../services/service.js';
import { type AnyDataLayer, CREATE_LEDGER, type PoolOptions, sendBy } from './data-layer.js';

/** A Postgres with an inbox, a ledger, and a role for each default isolation. */
export interface Database {
  readonly server: Service;
  readonly admin: pg.Pool;
  stop(): Promise<void>;
}

const ROLES = { 'repeatable read': 'repeatable', serializable: 'serializable' } as const;

export async function startDatabase(): Promise<Database> {
  const server = await startPostgres();
  const admin = new pg.Pool({ connectionString: server.url, application_name: 'admin' });
  admin.on('error', () => undefined);
  await migratePostgres(admin);
  await admin.query(CREATE_LEDGER);
  for (const [isolation, role] of Object.entries(ROLES)) {
    await admin.query(`CREATE ROLE ${role} SUPERUSER LOGIN PASSWORD 'password'`);
    await admin.query(`ALTER ROLE ${role} SET default_transaction_isolation = '${isolation}'`);
  }
  return {
    server,
    admin,
    async stop() {
      await admin.end();
      await server.stop();
    },
  };
}

/** A data layer as `transactionContract` takes it. */
export function underTest(
  { server, admin }: Database,
  openLayer: (options: PoolOptions) => AnyDataLayer | Promise<AnyDataLayer>,
): TransactionsUnderTest<unknown> {
  let current: AnyDataLayer | undefined;
  const layer = () => {
    if (current === undefined) throw new Error('No pool is open.');
    return current;
  };
  return {
    async open({ connections, isolation, connectTimeoutMs }) {
      const user = isolation === undefined ? 'postgres' : ROLES[isolation];
      const url = server.url.replace('postgres:password', `${user}:password`);
      const opened = await openLayer({ url, connections, connectTimeoutMs });
      current = opened;
      const inbox = postgresInbox(opened.pool, { transactional: true, connections });
      return { inbox, close: () => opened.close() };
    },
    effect: (tx, id) => layer().effect(tx, id),
    nested: (tx, work) => layer().nested(tx, work),
    raw: (tx, text) => layer().raw(tx, text),
    async countEffects(id) {
      const { rowCount } = await admin.query('SELECT FROM ledger WHERE id = $1', [id]);
      return rowCount ?? 0;
    },
    async disconnect() {
      await admin.query(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'admin'",
      );
    },
    restart: () => server.restart(),
  };
}

/** A PGlite with an inbox and a ledger, for the cases that need no second connection. */
export async function startPglite(): Promise<PGlite> {
  const db = await PGlite.create();
  await migratePostgres(db);
  await db.exec(CREATE_LEDGER);
  return db;
}

/** A PGlite as `transactionContract` takes it. */
export function pgliteUnderTest(db: PGlite): TransactionsUnderTest<unknown> {
  const refuse = () => Promise.reject(new Error('PGlite has one connection and no server.'));
  return {
    open: async () => ({
      inbox: postgresInbox(db, { transactional: true }),
      close: () => Promise.resolve(),
    }),
    effect: (tx, id) => (tx as Transaction).query('INSERT INTO ledger (id) VALUES ($1)', [id]),
    ...sendBy<unknown>((tx, text) => (tx as Transaction).exec(text)),
    async countEffects(id) {
      return (await db.query('SELECT FROM ledger WHERE id = $1', [id])).rows.length;
    },
    disconnect: refuse,
    restart: refuse,
  };
}
