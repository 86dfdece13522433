/** The whole suites of transactions and inboxes, over each data layer and a real Postgres. */
import { randomUUID } from 'node:crypto';
import type { PGlite } from '@electric-sql/pglite';
import { inboxContract, inboxTransactionContract, transactionContract } from 'stablehooks/conformance';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DATA_LAYERS } from './orm/data-layers.js';
import {
  type Database,
  pgliteUnderTest,
  startDatabase,
  startPglite,
  underTest,
} from './orm/with-data-layers.js';

let database: Database;
beforeAll(async () => {
  database = await startDatabase();
});
afterAll(() => database.stop());

describe.each(Object.entries(DATA_LAYERS))('transactions over %s', (_, open) => {
  for (const { name, run } of transactionContract) test(name, () => run(underTest(database, open)));

  test('a transaction that cannot begin rejects, and the event stays leased', async () => {
    const { server } = database;
    const { pool, close } = await open({ url: server.url, connections: 1 });
    const inbox = postgresInbox(pool, { transactional: true });
    const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
    if (claim.state !== 'claimed') throw new Error(`The claim was answered ${claim.state}.`);
    await server.halt();
    try {
      await expect(inbox.transaction?.(claim.lease, () => Promise.resolve())).rejects.toThrow();
    } finally {
      await server.start();
    }
    expect(await inbox.find(event.id)).toMatchObject({ state: 'leased' });
    await close();
  });
});

describe('transactions over PGlite', () => {
  let db: PGlite;
  beforeAll(async () => {
    db = await startPglite();
  });
  afterAll(() => db.close());

  // One connection in this process: nothing else can read or claim while a transaction is open, and nothing ends it.
  const needsConnections =
    /^a handler's effect and|times out|no connection in time|lease is lost|default_transaction|connection that|restart/;
  for (const { name, run } of transactionContract) {
    if (!needsConnections.test(name)) test(name, () => run(pgliteUnderTest(db)));
  }
});

describe.each(Object.entries(DATA_LAYERS))('inbox over %s', (layer, open) => {
  let cases = 0;
  for (const transactional of [false, true]) {
    for (const { name, run } of transactional ? inboxTransactionContract : inboxContract) {
      test(name, async () => {
        cases += 1;
        const schema = `over_${layer.replaceAll(/\W/g, '_')}_${cases}`;
        const { url } = database.server;
        const [first, second] = await Promise.all([
          open({ url, connections: 4 }),
          open({ url, connections: 4 }),
        ]);
        try {
          await migratePostgres(first.pool, { schema });
          const inboxOver = ({ pool }: typeof first) =>
            transactional ? postgresInbox(pool, { schema, transactional }) : postgresInbox(pool, { schema });
          await run({ inbox: inboxOver(first), second: inboxOver(second) });
        } finally {
          await Promise.all([first.close(), second.close()]);
        }
      });
    }
  }
});
