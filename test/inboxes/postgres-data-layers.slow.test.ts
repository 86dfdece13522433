/** The suites of transactions and inboxes over each data layer and a real Postgres, and what is special in one of them. */
import type { PGlite } from '@electric-sql/pglite';
import createKnex from 'knex';
import { createReceiver } from 'stablehooks';
import { fromKnex, migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inboxContract, inboxTransactionContract, transactionContract } from '../contracts/index.js';
import { driverContract } from '../driver-contract.js';
import { atNight } from '../nightly.js';
import { silent, someEvent } from './claimed.js';
import { emptyPostgres } from './empty-postgres.js';
import type { AnyDataLayer } from './orm/data-layer.js';
import { DATA_LAYERS, WHOLE_LAYERS } from './orm/data-layers.js';
import {
  type Database,
  pgliteUnderTest,
  startDatabase,
  startPglite,
  underTest,
} from './orm/with-data-layers.js';

/** Late statements over these layers can reach a transaction of another event: docs/exactly-once.md says so. */
const SENDS_LATE = /^Drizzle/;
const LEFT_BEHIND = /leaves behind is refused/;
/** postgres.js ends the process when it loses the connection of a transaction; only `fromPostgresJs` prevents that. */
const ENDS_PROCESS = 'Drizzle over postgres.js';
/** What each library does in its own way: begin, roll back, nest, and send a late statement or a COMMIT. */
const OF_LIBRARY =
  /^a handler's effect|^a rehearsal|^the effect of a handler that throws|^a nested|leaves behind|that sends (?:BEGIN|COMMIT) leaves/;
const LOST = /^a connection that ends|^a restart|during a long statement/;

let database: Database;
beforeAll(async () => {
  database = await startDatabase();
});
afterAll(() => database.stop());

/** Those of `pg` are in postgres-transaction.test.ts, which also runs with the oldest Postgres. */
const LIBRARIES = Object.entries(DATA_LAYERS).filter(([layer]) => layer !== 'pg');

describe.each(LIBRARIES)('transactions over %s', (layer, open) => {
  for (const { name, run } of transactionContract) {
    if (!WHOLE_LAYERS.includes(layer) && !OF_LIBRARY.test(name)) continue;
    if (SENDS_LATE.test(layer) && LEFT_BEHIND.test(name)) continue;
    if (layer === ENDS_PROCESS && LOST.test(name)) continue;
    test(name, () => run(underTest(database, open)));
  }

  // Their libraries have their own.
  if (layer === 'Prisma') return;

  test('the error of a statement of the inbox has its SQLSTATE and quotes no event', async () => {
    const opened = await open({ url: database.server.url, connections: 1 });
    try {
      const inbox = postgresInbox(opened.pool, { schema: 'missing' });
      const event = someEvent();
      await expect(inbox.claim(event, { leaseMs: 1_000, origin: 'push' })).rejects.toMatchObject({
        message: expect.stringContaining('Call migratePostgres(pool)'),
        cause: {
          code: '3F000',
          message: expect.toSatisfy(
            (message: string) =>
              message.startsWith('schema "missing" does not exist') && !message.includes(event.id),
          ),
        },
      });
    } finally {
      await opened.close();
    }
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
    /^a handler's effect and|its limit|no connection in time|lease is lost|the default isolation|connection that|restart|apart from the transaction|get their steps|a step neither|while a first attempt|of deliveries of one event|a stored event is claimed|steps of a first|a stored step returns/;
  for (const { name, run } of transactionContract) {
    if (!needsConnections.test(name)) test(name, () => run(pgliteUnderTest(db)));
  }
});

describe.each(Object.entries(DATA_LAYERS))('inbox over %s', (layer, open) => {
  const schema = `over_${layer.replaceAll(/\W/g, '_')}`;
  let first: AnyDataLayer;
  let second: AnyDataLayer;
  beforeAll(async () => {
    const { url } = database.server;
    [first, second] = await Promise.all([open({ url, connections: 4 }), open({ url, connections: 4 })]);
    await migratePostgres(first.pool, { schema });
  });
  afterAll(() => Promise.all([first.close(), second.close()]));

  for (const transactional of [false, true]) {
    const whole = transactional ? inboxTransactionContract : inboxContract;
    // In postgres.test.ts a pool of `pg` runs the whole contract each time.
    for (const { name, run } of atNight(whole, driverContract)) {
      test(name, async () => {
        await emptyPostgres(database.admin, schema);
        const inboxOver = ({ pool }: AnyDataLayer) =>
          transactional ? postgresInbox(pool, { schema, transactional }) : postgresInbox(pool, { schema });
        await run({ inbox: inboxOver(first), second: inboxOver(second) });
      });
    }
  }
});

describe('a handler that ends its transaction by the methods of its library', () => {
  const countOf = async (id: string) =>
    (await database.admin.query('SELECT count(*)::int FROM ledger WHERE id = $1', [id])).rows[0].count;

  test.each([
    { end: 'rollback', kind: 'failed', effects: 0 },
    { end: 'rollback with an error', kind: 'failed', effects: 0 },
    { end: 'rollback and another statement', kind: 'failed', effects: 0 },
    // The event was stored as done with it.
    { end: 'commit', kind: 'dead', effects: 1 },
  ])('of Knex: $end is $kind, never handled without an effect', async ({ end, kind, effects }) => {
    const knex = createKnex({ client: 'pg', connection: database.server.url, pool: { min: 0, max: 2 } });
    try {
      const event = someEvent();
      const inbox = postgresInbox(fromKnex(knex), { transactional: true });
      const receiver = createReceiver({
        secret: 'x',
        inbox,
        logger: silent,
        handlers: {
          'transfer.settled': async ({ id }, { tx }) => {
            await tx('ledger').insert({ id });
            if (end === 'commit') await Promise.resolve(tx.commit()).catch(() => undefined);
            else
              await Promise.resolve(tx.rollback(end.endsWith('error') ? new Error('no') : undefined)).catch(
                () => undefined,
              );
            if (end.endsWith('statement'))
              await tx('ledger')
                .insert({ id })
                .then(undefined, () => undefined);
          },
        },
      });
      expect(await receiver.handle(event, 'push')).toMatchObject({ kind });
      expect(await inbox.find(event.id)).toMatchObject({ state: kind });
      expect(await countOf(event.id)).toBe(effects);
    } finally {
      await knex.destroy();
    }
  });
});
