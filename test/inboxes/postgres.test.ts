import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import postgres from 'postgres';
import { inboxContract, inboxTransactionContract } from 'stablehooks/conformance';
import {
  fromPostgresJs,
  migratePostgres,
  type PgPoolLike,
  type PgTransactionsLike,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { neonPool } from '../services/neon.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';

let server: Service;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

/** Two connections to one database. */
interface Connections {
  readonly first: PgPoolLike | PgTransactionsLike;
  readonly second: PgPoolLike | PgTransactionsLike;
  end(): Promise<unknown>;
}

const drivers: Readonly<Record<string, () => Connections | Promise<Connections>>> = {
  pg: () => {
    const [first, second] = [pgPool(), pgPool()];
    return { first, second, end: () => Promise.all([first.end(), second.end()]) };
  },
  neon: () => {
    const [first, second] = [neonPool(server.url), neonPool(server.url)];
    return { first, second, end: () => Promise.all([first.end(), second.end()]) };
  },
  'postgres.js': () => {
    const [first, second] = [postgres(server.url), postgres(server.url)];
    const end = () => Promise.all([first.end(), second.end()]);
    return { first: fromPostgresJs(first), second: fromPostgresJs(second), end };
  },
  PGlite: async () => {
    const only = await PGlite.create();
    return { first: only, second: only, end: () => only.close() };
  },
};

const pgPool = () => new pg.Pool({ connectionString: server.url }).on('error', () => undefined);

for (const [driver, connect] of Object.entries(drivers)) {
  describe(`Postgres inbox over ${driver}`, () => {
    let connections: Connections;
    let cases = 0;
    beforeAll(async () => {
      connections = await connect();
    });
    afterAll(() => connections.end());

    for (const transactional of [false, true]) {
      for (const { name, run } of transactional ? inboxTransactionContract : inboxContract) {
        test(name, async () => {
          cases += 1;
          const schema = `over_${driver.replace('.', '_')}_${cases}`;
          await migratePostgres(connections.first, { schema });
          const open = (pool: Connections['first']) =>
            transactional
              ? postgresInbox(pool as PgPoolLike, { schema, transactional })
              : postgresInbox(pool, { schema });
          await run({ inbox: open(connections.first), second: open(connections.second) });
        });
      }
    }
  });
}
