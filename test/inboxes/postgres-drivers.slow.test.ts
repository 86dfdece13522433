import { PGlite } from '@electric-sql/pglite';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { inboxTransactionContract } from '../contracts/index.js';
import { driverContract } from '../driver-contract.js';
import { neonPool } from '../services/neon.js';
import { ownPostgres } from '../services/own-postgres.js';
import { claimed } from './claimed.js';
import { describePostgres } from './postgres-contracts.js';

const postgres = ownPostgres();
let lite: PGlite;
beforeAll(async () => {
  lite = await PGlite.create();
});
afterAll(() => lite.close());

const CONTRACTS = { plain: driverContract, transactional: inboxTransactionContract };

function connectNeon() {
  const [first, second] = [neonPool(postgres.server.url), neonPool(postgres.server.url)];
  return { first, second, end: () => Promise.all([first.end(), second.end()]) };
}
describePostgres('neon', connectNeon, CONTRACTS);

const connectPglite = () => ({ first: lite, second: lite, end: async () => undefined });
describePostgres('PGlite', connectPglite, CONTRACTS);

test('a handler over PGlite that rolls its transaction back by the method of PGlite has failed', async () => {
  await migratePostgres(lite);
  const inbox = postgresInbox(lite, { transactional: true });
  const lease = await claimed(inbox);
  await expect(inbox.transaction?.(lease, (tx) => tx.rollback())).rejects.toMatchObject({
    code: 'ERR_HANDLER_FAILED',
  });
});
