/** The databases of the inbox and the ledger. */
import { createPool, type PoolConnection, type RowDataPacket } from 'mysql2/promise';
import pg from 'pg';
import type { Inbox, InboxOperations } from 'stablehooks';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { migratePostgres, type PgTx, postgresInbox } from 'stablehooks/inboxes/postgres';
import { startMariadb } from '../services/mariadb.js';
import { startPostgres } from '../services/postgres.js';

interface Store<Tx> {
  readonly inbox: Inbox<Tx> & InboxOperations;
  /** Enters an event into the ledger, in its transaction. */
  enter(tx: Tx, id: string): Promise<unknown>;
  migrate(): Promise<unknown>;
  select(text: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
  /** The name of the inbox's table. */
  readonly events: string;
  close(): Promise<void>;
}

// Without a key, so that only the inbox prevents a second entry.
const LEDGER = 'CREATE TABLE ledger (event_id varchar(64) NOT NULL, pid integer NOT NULL)';
const CONNECT_MS = 2_000;

function openPostgres(connectionString: string): Store<PgTx> {
  const pool = new pg.Pool({ connectionString, max: 8, connectionTimeoutMillis: CONNECT_MS });
  // Servers are restarted while this runs.
  pool.on('error', () => undefined);
  return {
    inbox: postgresInbox(pool, { transactional: true }),
    enter: (tx, id) => tx.query('INSERT INTO ledger VALUES ($1, $2)', [id, process.pid]),
    migrate: () => migratePostgres(pool).then(() => pool.query(LEDGER)),
    select: async (text) => (await pool.query(text)).rows,
    events: 'stablehooks.events',
    close: () => pool.end(),
  };
}

function openMysql(uri: string): Store<PoolConnection> {
  const pool = createPool({ uri, connectionLimit: 8, connectTimeout: CONNECT_MS });
  const inbox = mysqlInbox(pool, { transactional: true });
  return {
    inbox,
    enter: (tx, id) => tx.query('INSERT INTO ledger VALUES (?, ?)', [id, process.pid]),
    migrate: () => migrateMysql(pool).then(() => pool.query(LEDGER)),
    select: async (text) => (await pool.query<RowDataPacket[]>(text))[0],
    events: 'stablehooks_events',
    close: () => pool.end(),
  };
}

export const STORES = {
  Postgres: { start: startPostgres, open: openPostgres },
  MariaDB: { start: startMariadb, open: openMysql },
};

export type StoreName = keyof typeof STORES;
