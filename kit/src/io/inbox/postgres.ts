import { migratePostgres, type PgLike, postgresInbox } from 'stablehooks/inboxes/postgres';
import {
  ANSWER_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  closeOnError,
  importFromProject,
  type Opened,
  type OpenOptions,
} from './opening.js';

interface Pg {
  readonly Pool: new (options: {
    readonly connectionString: string;
    readonly connectionTimeoutMillis: number;
    readonly query_timeout: number;
    readonly max: number;
  }) => PgLike & { end(): Promise<void>; on(event: 'error', listener: () => void): void };
  /** Parses the URL immediately, whereas a pool parses it only when it connects. */
  readonly Client: new (options: {
    readonly connectionString: string;
  }) => object;
}

export async function openPostgres(
  connectionString: string,
  { create, namespaces: [schema] }: OpenOptions,
): Promise<Opened> {
  const { driver: pg } = await importFromProject<Pg>(['pg'], 'A Postgres inbox needs a driver.');
  new pg.Client({ connectionString });
  const pool = new pg.Pool({
    connectionString,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    max: 2,
  });
  // Without a listener, a connection that is cut while idle would end the process.
  pool.on('error', () => undefined);
  const inbox = postgresInbox(pool, { schema });
  if (create) await closeOnError(migratePostgres(pool, { schema }), () => pool.end());
  return { ...inbox, namespace: schema, close: () => pool.end() };
}
