import {
  migratePostgres,
  type PgPoolLike,
  type PgTransactionsLike,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { ContractCase, InboxUnderTest } from '../contracts/index.js';
import { emptyPostgres } from './empty-postgres.js';

/** Two connections to one database. */
interface Connections {
  readonly first: PgPoolLike | PgTransactionsLike<unknown>;
  readonly second: PgPoolLike | PgTransactionsLike<unknown>;
  end(): Promise<unknown>;
}

/** The cases of an inbox with and without transactions. */
interface Contracts {
  readonly plain: readonly ContractCase<InboxUnderTest>[];
  readonly transactional: readonly ContractCase<InboxUnderTest>[];
}

/** Runs contracts of an inbox over a driver. */
export function describePostgres(driver: string, connect: () => Connections, contracts: Contracts): void {
  describe(`Postgres inbox over ${driver}`, () => {
    const schema = `over_${driver}`;
    let connections: Connections;
    beforeAll(async () => {
      connections = connect();
      await migratePostgres(connections.first, { schema });
    });
    afterAll(() => connections.end());

    for (const transactional of [false, true]) {
      for (const { name, run } of transactional ? contracts.transactional : contracts.plain) {
        test(name, async () => {
          await emptyPostgres(connections.first, schema);
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
