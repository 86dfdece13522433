import { PGlite } from '@electric-sql/pglite';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
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

describePostgres('neon', '@neondatabase/serverless', () => {
  const [first, second] = [neonPool(server.url), neonPool(server.url)];
  return { first, second, end: () => Promise.all([first.end(), second.end()]) };
});

describePostgres('PGlite', '@electric-sql/pglite', () => {
  return { first: lite, second: lite, end: async () => undefined };
});

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
