import { type MysqlPoolLike, migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import {
  ANSWER_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  closeOnError,
  importFromProject,
  type Opened,
  type OpenOptions,
} from './opening.js';

interface Mysql2 {
  createPool(options: {
    readonly uri: string;
    readonly connectTimeout: number;
    readonly connectionLimit: number;
  }): { promise(): MysqlPoolLike & { end(): Promise<void> } };
}

function withTimeout(pool: MysqlPoolLike): MysqlPoolLike {
  return {
    async getConnection() {
      const connection = await pool.getConnection();
      const query: typeof connection.query = (options) =>
        connection.query(Object.assign(options, { timeout: ANSWER_TIMEOUT_MS }));
      return Object.create(connection, { query: { value: query } });
    },
  };
}

export async function openMysql(url: string, { create, namespaces: [prefix] }: OpenOptions): Promise<Opened> {
  const { driver: mysql2 } = await importFromProject<Mysql2>(['mysql2'], 'A MySQL inbox needs a driver.');
  const { href } = new URL(url);
  const pool = mysql2
    .createPool({ uri: href, connectTimeout: CONNECT_TIMEOUT_MS, connectionLimit: 2 })
    .promise();
  const inbox = mysqlInbox(withTimeout(pool), { prefix });
  if (create) await closeOnError(migrateMysql(pool, { prefix }), () => pool.end());
  return { ...inbox, namespace: prefix, close: () => pool.end() };
}
