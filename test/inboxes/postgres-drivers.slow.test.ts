import { PGlite } from '@electric-sql/pglite';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { inboxTransactionContract } from 'stablehooks-kit/conformance';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { driverContract } from '../driver-contract.js';
import { neonPool } from '../services/neon.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';
import { describePostgres } from './postgres-contracts.js';

let server: Service;
let lite: PGlite;
beforeAll(async () => {
  [server, lite] = await Promise.all([startPostgres(), PGlite.create()]);
});
afterAll(() => Promise.all([server.stop(), lite.close()]));

const CONTRACTS = { plain: driverContract, transactional: inboxTransactionContract };

function connectNeon() {
  const [first, second] = [neonPool(server.url), neonPool(server.url)];
  return { first, second, end: () => Promise.all([first.end(), second.end()]) };
}
describePostgres('neon', connectNeon, CONTRACTS);

const connectPglite = () => ({ first: lite, second: lite, end: async () => undefined });
describePostgres('PGlite', connectPglite, CONTRACTS);

test('a handler over PGlite that rolls its transaction back by the method of PGlite has failed', async () => {
  await migratePostgres(lite);
  const inbox = postgresInbox(lite, { transactional: true });
  const claim = await inbox.claim(exampleEvent('transfer.settled'), { leaseMs: 60_000, origin: 'push' });
  if (claim.state !== 'claimed') throw new Error(claim.state);
  await expect(inbox.transaction?.(claim.lease, (tx) => tx.rollback())).rejects.toMatchObject({
    code: 'ERR_HANDLER_FAILED',
  });
});
