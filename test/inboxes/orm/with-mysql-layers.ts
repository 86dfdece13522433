/** Runs tests for every data layer of MySQL, over a MariaDB of their own. */
import { createPool, type Pool, type RowDataPacket } from 'mysql2/promise';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import type { TransactionsUnderTest } from '../../contracts/index.js';
import { startMariadb } from '../../services/mariadb.js';
import type { Service } from '../../services/service.js';
import type { PoolOptions } from './data-layer.js';
import { type AnyMysqlLayer, CREATE_LEDGER } from './mysql-layers.js';

/** A MariaDB with an inbox and a ledger. */
export interface MysqlDatabase {
  readonly server: Service;
  readonly admin: Pool;
  /** The first column of the rows. */
  select(text: string, values?: string[]): Promise<readonly unknown[]>;
  stop(): Promise<void>;
}

export async function startMysqlDatabase(): Promise<MysqlDatabase> {
  const server = await startMariadb();
  const admin = createPool({ uri: server.url, connectionLimit: 4 });
  await migrateMysql(admin);
  await admin.query(CREATE_LEDGER);
  return {
    server,
    admin,
    async select(text, values = []) {
      const [rows] = await admin.query<RowDataPacket[]>(text, values);
      return rows.map((row) => Object.values(row)[0]);
    },
    async stop() {
      await admin.end();
      await server.stop();
    },
  };
}

/** A data layer as `mysqlTransactionContract` takes it. */
export function mysqlUnderTest(
  { server, admin, select }: MysqlDatabase,
  openLayer: (options: PoolOptions) => AnyMysqlLayer | Promise<AnyMysqlLayer>,
): TransactionsUnderTest<unknown> {
  let current: AnyMysqlLayer | undefined;
  const layer = () => {
    if (current === undefined) throw new Error('No pool is open.');
    return current;
  };
  return {
    async open({ connections, isolation = 'repeatable read', connectTimeoutMs }) {
      // For new sessions.
      await admin.query(`SET GLOBAL TRANSACTION ISOLATION LEVEL ${isolation}`);
      const opened = await openLayer({ url: server.url, connections, connectTimeoutMs });
      current = opened;
      const inbox = mysqlInbox(opened.pool, { transactional: true, connections });
      return { inbox, close: () => opened.close() };
    },
    effect: (tx, id) => layer().effect(tx, id),
    nested: (tx, work) => layer().nested(tx, work),
    raw: (tx, text) => layer().raw(tx, text),
    countEffects: async (id) => (await select('SELECT entry FROM ledger WHERE id = ?', [id])).length,
    async disconnect() {
      const connection = await admin.getConnection();
      const others =
        "SELECT id FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID()";
      const ids = await select(others);
      for (const id of ids) await connection.query(`KILL ${id}`).catch(() => undefined);
      while ((await select(others)).some((id) => ids.includes(id)));
      connection.release();
    },
    restart: () => server.restart(),
  };
}
