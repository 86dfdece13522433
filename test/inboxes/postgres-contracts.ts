import {
  migratePostgres,
  type PgPoolLike,
  type PgTransactionsLike,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { inboxContract, inboxTransactionContract } from 'stablehooks-kit/conformance';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { recorded } from '../compat/recorded.js';
import { emptyPostgres } from './empty-postgres.js';

/** Two connections to one database. */
interface Connections {
  readonly first: PgPoolLike | PgTransactionsLike<unknown>;
  readonly second: PgPoolLike | PgTransactionsLike<unknown>;
  end(): Promise<unknown>;
}

/** Runs both contracts of an inbox over a driver, which is the package of that name. */
export function describePostgres(driver: string, packageName: string, connect: () => Connections): void {
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
      const options = recorded('inbox', driver, packageName, contracts);
      for (const { name, run } of transactional ? inboxTransactionContract : inboxContract) {
        test(name, options, async () => {
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
