import pg from 'pg';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inboxContract, inboxTransactionContract } from '../contracts/index.js';
import { atNight } from '../nightly.js';
import { ownPostgres } from '../services/own-postgres.js';
import { claimed, someEvent } from './claimed.js';
import { emptyPostgres } from './empty-postgres.js';

const postgres = ownPostgres();

// READ COMMITTED, the default of the server, is the level of the other tests.
describe.each(atNight(['repeatable read', 'serializable'], ['serializable']))(
  'under a role with the isolation %s',
  (level) => {
    const schema = level.replace(' ', '_');
    let first: pg.Pool;
    let second: pg.Pool;
    beforeAll(async () => {
      const role = level.replace(' ', '_');
      await postgres.pool.query(`CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD 'password'`);
      await postgres.pool.query(`ALTER ROLE ${role} SET default_transaction_isolation = '${level}'`);
      const connectionString = postgres.server.url.replace('postgres:password', `${role}:password`);
      const open = () => new pg.Pool({ connectionString }).on('error', () => undefined);
      [first, second] = [open(), open()];
      await Promise.all([first, second, first].map((pool) => migratePostgres(pool, { schema })));
      const shown = await first.query('SHOW default_transaction_isolation');
      expect(shown.rows).toEqual([{ default_transaction_isolation: level }]);
    });
    afterAll(() => Promise.all([first.end(), second.end()]));

    /** Two empty inboxes over one schema. */
    async function openInboxes() {
      await emptyPostgres(first, schema);
      const open = (pool: pg.Pool) => postgresInbox(pool, { schema, transactional: true });
      return { inbox: open(first), second: open(second) };
    }

    for (const { name, run } of [...inboxContract, ...inboxTransactionContract]) {
      test(name, async () => run(await openInboxes()));
    }

    test('duplicates of a running event do not abort its transaction', async () => {
      const { inbox, second: other } = await openInboxes();
      const event = someEvent();
      const lease = await claimed(inbox, event);
      const done = inbox.transaction?.(lease, async (tx) => {
        expect((await tx.query('SHOW transaction_isolation')).rows).toEqual([
          { transaction_isolation: 'read committed' },
        ]);
        // Each duplicate writes the row of the event.
        for (let count = 0; count < 3; count++) {
          expect((await other.claim(event, { leaseMs: 60_000, origin: 'push' })).state).toBe('leased');
        }
      });
      expect(await done).toBe(true);
    });
  },
);
