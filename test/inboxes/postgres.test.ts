import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import { inboxContract, inboxTransactionContract } from 'stablehooks/conformance';
import {
  migratePostgres,
  type PgPoolLike,
  type PgTransactionsLike,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { recorded } from '../compat/recorded.js';
import { neonPool } from '../services/neon.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';
import { emptyPostgres } from './empty-postgres.js';

let server: Service;
let lite: PGlite;
beforeAll(async () => {
  [server, lite] = await Promise.all([startPostgres(), PGlite.create()]);
});
afterAll(() => Promise.all([server.stop(), lite.close()]));

/** Two connections to one database. */
interface Connections {
  readonly first: PgPoolLike | PgTransactionsLike<unknown>;
  readonly second: PgPoolLike | PgTransactionsLike<unknown>;
  /** Removes what the case before has stored. */
  empty(schema: string): Promise<void>;
  end(): Promise<unknown>;
}

const drivers: Readonly<Record<string, () => Connections>> = {
  pg: () => {
    const [first, second] = [pgPool(), pgPool()];
    return {
      ...{ first, second, empty: (schema: string) => emptyPostgres(first, schema) },
      end: () => Promise.all([first.end(), second.end()]),
    };
  },
  neon: () => {
    const [first, second] = [neonPool(server.url), neonPool(server.url)];
    return {
      ...{ first, second, empty: (schema: string) => emptyPostgres(first, schema) },
      end: () => Promise.all([first.end(), second.end()]),
    };
  },
  PGlite: () => {
    return {
      ...{ first: lite, second: lite, empty: (schema: string) => emptyPostgres(lite, schema) },
      end: async () => undefined,
    };
  },
};

/** The package of each driver. */
const PACKAGES: Readonly<Record<string, string>> = {
  neon: '@neondatabase/serverless',
  PGlite: '@electric-sql/pglite',
};

const pgPool = () => new pg.Pool({ connectionString: server.url }).on('error', () => undefined);

for (const [driver, connect] of Object.entries(drivers)) {
  describe(`Postgres inbox over ${driver}`, () => {
    const schema = `over_${driver}`;
    let connections: Connections;
    beforeAll(async () => {
      connections = connect();
      await migratePostgres(connections.first, { schema });
    });
    afterAll(() => connections.end());

    for (const transactional of [false, true]) {
      const contracts = transactional ? { inboxTransactionContract } : { inboxContract };
      const options = recorded('inbox', driver, PACKAGES[driver] ?? driver, contracts);
      for (const { name, run } of transactional ? inboxTransactionContract : inboxContract) {
        test(name, options, async () => {
          await connections.empty(schema);
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

test('nested transactions over ctx.tx of PGlite are savepoints, and its rollback is refused', async () => {
  await migratePostgres(lite);
  await lite.exec('CREATE TABLE ledger (id text)');
  const inbox = postgresInbox(lite, { transactional: true });
  const event = exampleEvent('transfer.settled');
  const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
  if (claim.state !== 'claimed') throw new Error(claim.state);
  await inbox.transaction?.(claim.lease, async (tx) => {
    expect(await tx.query('INSERT INTO ledger VALUES ($1)', ['a'])).toMatchObject({ affectedRows: 1 });
    await tx.exec('BEGIN');
    await tx.sql`INSERT INTO ledger VALUES (${'b'})`;
    await tx.sql`ROLLBACK`;
    await expect(tx.exec('COMMIT')).rejects.toThrow('belongs to the inbox');
    expect(() => tx.rollback()).toThrow('do not call rollback()');
    expect(tx.closed).toBe(false);
    expect((await tx.query('SHOW transaction_isolation')).rows).toEqual([
      { transaction_isolation: 'read committed' },
    ]);
  });
  expect((await lite.query('SELECT id FROM ledger')).rows).toEqual([{ id: 'a' }]);
});
