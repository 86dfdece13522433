/** The contract of transactions over `pg`, also with the oldest Postgres: .ci/run runs this file with it. */
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { transactionContract } from '../contracts/index.js';
import { neonPool } from '../services/neon.js';
import { claimed } from './claimed.js';
import { pgPool } from './orm/data-layer.js';
import { openPg, overPg } from './orm/pg.js';
import { type Database, startDatabase, underTest } from './orm/with-data-layers.js';

/** Neon's pool is one of `pg` over another socket; what breaks or limits connections is `pg`'s. */
const OF_NEON =
  /^a handler's effect|^the effect of a handler that throws|^a nested|lease is lost|leaves behind|that sends (?:BEGIN|COMMIT) leaves/;

let database: Database;
beforeAll(async () => {
  database = await startDatabase();
});
afterAll(() => database.stop());

describe('transactions over pg', () => {
  for (const { name, run } of transactionContract) test(name, () => run(underTest(database, openPg)));
});

describe('transactions over neon', () => {
  const openNeon = ({ url }: { readonly url: string }) => overPg(neonPool(url));

  for (const { name, run } of transactionContract) {
    if (OF_NEON.test(name)) test(name, () => run(underTest(database, openNeon)));
  }
});

test('the server ends the transaction of a handler that sends nothing more when its lease has lapsed', async () => {
  const { admin, server } = database;
  const pool = pgPool({ url: server.url, connections: 1 });
  const inbox = postgresInbox(pool, { transactional: true });
  const lease = await claimed(inbox, undefined, { leaseMs: 0 });
  let pid: unknown;
  let end = () => {};
  const running = inbox.transaction?.(lease, async (tx) => {
    pid = (await tx.query('SELECT pg_backend_pid() AS pid')).rows[0].pid;
    await new Promise<void>((resolve) => {
      end = resolve;
    });
  });
  const failure = Promise.resolve(running).catch((error: unknown) => error);
  try {
    await expect.poll(() => pid).toBeDefined();
    await expect
      .poll(async () => (await admin.query('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])).rowCount)
      .toBe(0);
  } finally {
    end();
  }
  expect(await failure).toBeInstanceOf(Error);
  expect((await inbox.find(lease.id))?.state).toBe('leased');
  await pool.end();
});
