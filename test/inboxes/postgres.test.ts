import pg from 'pg';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { inboxClockContract, inboxContract, inboxTransactionContract } from '../contracts/index.js';
import { ownPostgres } from '../services/own-postgres.js';
import { emptyPostgres } from './empty-postgres.js';
import { describePostgres } from './postgres-contracts.js';

const postgres = ownPostgres();

function connect() {
  const open = () => new pg.Pool({ connectionString: postgres.server.url }).on('error', () => undefined);
  const [first, second] = [open(), open()];
  return { first, second, end: () => Promise.all([first.end(), second.end()]) };
}
describePostgres('pg', connect, { plain: inboxContract, transactional: inboxTransactionContract });

describe('Postgres inbox whose clock is set back', () => {
  const schema = 'clocked';
  let connections: ReturnType<typeof connect>;
  beforeAll(async () => {
    connections = connect();
    await migratePostgres(connections.first, { schema });
  });
  afterAll(() => connections.end());

  /** The clock is that of the server, so the times that it has stored move instead. */
  async function setBack(ms: number): Promise<void> {
    const move = (table: string, columns: readonly string[]) =>
      connections.first.query(
        `UPDATE ${schema}.${table} SET ${columns.map((name) => `${name} = ${name} + interval '${ms} ms'`).join()}`,
      );
    await move('events', ['received_at', 'updated_at', 'due_at']);
    await move('notes', ['lease_until', 'leased_at']);
  }

  for (const { name, run } of inboxClockContract) {
    test(name, async () => {
      await emptyPostgres(connections.first, schema);
      const [inbox, second] = [
        postgresInbox(connections.first, { schema }),
        postgresInbox(connections.second, { schema }),
      ];
      await run({ inbox, second, setBack });
    });
  }
});
