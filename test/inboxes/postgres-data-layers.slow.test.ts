/** The suites of transactions and inboxes over each data layer and a real Postgres, and what is special in one of them. */
import { randomUUID } from 'node:crypto';
import type { PGlite } from '@electric-sql/pglite';
import createKnex from 'knex';
import postgres, { type TransactionSql } from 'postgres';
import { createReceiver } from 'stablehooks';
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromTypeOrm,
  migratePostgres,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { inboxContract, inboxTransactionContract, transactionContract } from 'stablehooks-kit/conformance';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { recorded } from '../compat/recorded.js';
import { emptyPostgres } from './empty-postgres.js';
import type { AnyDataLayer } from './orm/data-layer.js';
import { DATA_LAYERS } from './orm/data-layers.js';
import {
  type Database,
  pgliteUnderTest,
  startDatabase,
  startPglite,
  underTest,
} from './orm/with-data-layers.js';

/** The package of each data layer. */
const PACKAGES: Readonly<Record<string, string>> = {
  'postgres.js': 'postgres',
  Drizzle: 'drizzle-orm',
  'Drizzle over postgres.js': 'drizzle-orm',
  Kysely: 'kysely',
  Knex: 'knex',
  TypeORM: 'typeorm',
  Prisma: '@prisma/client',
};

let database: Database;
beforeAll(async () => {
  database = await startDatabase();
});
afterAll(() => database.stop());

describe.each(Object.entries(DATA_LAYERS))('transactions over %s', (layer, open) => {
  const options = recorded('inbox', layer, PACKAGES[layer] ?? layer, { transactionContract });
  for (const { name, run } of transactionContract) test(name, options, () => run(underTest(database, open)));

  // The queries of Prisma do not pass through the inbox, and the tx of pg sends no ROLLBACK.
  if (layer === 'Prisma' || layer === 'pg') return;
  /** Handles an event whose handler sends a text, writes and loses its connection. */
  async function handleAndDisconnect(text: string) {
    const { pool, effect, raw, close } = await open({ url: database.server.url, connections: 1 });
    try {
      const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
      const { disconnect } = underTest(database, open);
      const receiver = createReceiver({
        secret: 'x',
        inbox: postgresInbox(pool, { transactional: true }),
        logger: { warn: () => undefined, error: () => undefined },
        handlers: {
          'transfer.settled': async ({ id }, { tx }) => {
            await raw(tx, text);
            await effect(tx, id);
            await disconnect();
            await effect(tx, id);
          },
        },
      });
      const { kind } = await receiver.handle(event, 'push');
      const { rows } = await database.admin.query('SELECT FROM ledger WHERE id = $1', [event.id]);
      return { kind, effects: rows.length };
    } finally {
      await close();
    }
  }

  test('a handler that sends ROLLBACK, writes and loses its connection is dead, because it must not run twice', async () => {
    const block = "DO $a$ BEGIN PERFORM '$$'; END $a$";
    for (const text of ['ROLLBACK', `${block}; ROLLBACK`]) {
      expect(await handleAndDisconnect(text)).toEqual({ kind: 'dead', effects: 1 });
    }
  });

  test('a handler that sends a DO block, writes and loses its connection is not dead: it has ended nothing', async () => {
    for (const text of [
      'DO $$ BEGIN PERFORM 1; END $$',
      "do language plpgsql $a$\nBEGIN PERFORM '$$'; END;\n$a$;",
    ]) {
      const { kind, effects } = await handleAndDisconnect(text);
      expect(['failed', 'unavailable']).toContain(kind);
      expect(effects).toBe(0);
    }
  });

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

  test('the error of a statement of the inbox has its SQLSTATE and quotes no event', async () => {
    const opened = await open({ url: database.server.url, connections: 1 });
    try {
      const inbox = postgresInbox(opened.pool, { schema: 'missing' });
      const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
      await expect(inbox.claim(event, { leaseMs: 1_000, origin: 'push' })).rejects.toMatchObject({
        code: '3F000',
        message: expect.toSatisfy(
          (message: string) =>
            message.startsWith('schema "missing" does not exist') && !message.includes(event.id),
        ),
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
    /^a handler's effect and|times out|no connection in time|lease is lost|default_transaction|connection that|restart/;
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
    for (const { name, run } of transactional ? inboxTransactionContract : inboxContract) {
      test(name, async () => {
        await emptyPostgres(database.admin, schema);
        const inboxOver = ({ pool }: AnyDataLayer) =>
          transactional ? postgresInbox(pool, { schema, transactional }) : postgresInbox(pool, { schema });
        await run({ inbox: inboxOver(first), second: inboxOver(second) });
      });
    }
  }
});

test.each([
  ['fromDrizzle', () => fromDrizzle({} as never)],
  ['fromKysely', () => fromKysely({} as never)],
  ['fromKnex', () => fromKnex({} as never)],
  ['fromTypeOrm', () => fromTypeOrm({} as never)],
  ['fromPrisma', () => fromPrisma({} as never)],
  ['fromPostgresJs', () => fromPostgresJs({} as never)],
])('%s refuses what is not its data layer, and says how to call it', (name, call) => {
  expect(call).toThrow(expect.objectContaining({ code: 'ERR_CONFIG_INVALID' }));
  expect(call).toThrow(new RegExp(`^${name}: .* must be .*${name}\\(`));
});

describe('a handler that ends its transaction by the methods of its library', () => {
  const quiet = { warn: () => undefined, error: () => undefined };
  const countOf = async (id: string) =>
    (await database.admin.query('SELECT count(*)::int FROM ledger WHERE id = $1', [id])).rows[0].count;
  const newEvent = () => ({ ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` });

  test.each(['rollback', 'commit', 'rollback with an error', 'rollback and another statement'])(
    'of Knex: %s is failed, never handled without an effect',
    async (end) => {
      const knex = createKnex({ client: 'pg', connection: database.server.url, pool: { min: 0, max: 2 } });
      try {
        const event = newEvent();
        const inbox = postgresInbox(fromKnex(knex), { transactional: true });
        const receiver = createReceiver({
          secret: 'x',
          inbox,
          logger: quiet,
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
        expect(await receiver.handle(event, 'push')).toMatchObject({
          kind: 'failed',
          error: { code: 'ERR_HANDLER_FAILED' },
        });
        expect(await inbox.find(event.id)).toMatchObject({ state: 'failed' });
        expect(await countOf(event.id)).toBe(0);
      } finally {
        await knex.destroy();
      }
    },
  );

  test.each([
    ['prepare', (tx: TransactionSql) => tx.prepare('name')],
    ['a file that it does not wait for', (tx: TransactionSql) => void tx.file('statement.sql')],
    [
      'a file in a nested transaction',
      (tx: TransactionSql) => tx.savepoint((nested) => nested.file('statement.sql')),
    ],
  ])('of postgres.js: %s is refused', async (_, end) => {
    const sql = postgres(database.server.url, { max: 2, onnotice: () => undefined });
    try {
      const event = newEvent();
      const inbox = postgresInbox(fromPostgresJs(sql), { transactional: true });
      const receiver = createReceiver({
        secret: 'x',
        inbox,
        logger: quiet,
        handlers: {
          'transfer.settled': async ({ id }, { tx }) => {
            await tx`INSERT INTO ledger (id) VALUES (${id})`;
            await end(tx);
          },
        },
      });
      expect(await receiver.handle(event, 'push')).toMatchObject({
        kind: 'failed',
        error: { code: 'ERR_HANDLER_FAILED' },
      });
      expect(await countOf(event.id)).toBe(0);
    } finally {
      await sql.end();
    }
  });

  test('what a handler over postgres.js notifies of is sent with the COMMIT, and only then', async () => {
    const sql = postgres(database.server.url, { max: 1, onnotice: () => undefined });
    const listener = await database.admin.connect();
    try {
      const heard: unknown[] = [];
      listener.on('notification', ({ payload }) => heard.push(payload));
      await listener.query('LISTEN effects');
      const events = [newEvent(), newEvent()];
      const receiver = createReceiver({
        secret: 'x',
        inbox: postgresInbox(fromPostgresJs(sql), { transactional: true }),
        logger: quiet,
        handlerTimeoutMs: 5_000,
        handlers: {
          'transfer.settled': async ({ id }, { tx }) => {
            await tx.notify('effects', id);
            if (id === events[0]?.id) throw new Error('no');
          },
        },
      });
      for (const event of events) await receiver.handle(event, 'push');
      await database.admin.query("SELECT pg_notify('effects', 'last')");
      await expect.poll(() => heard).toContain('last');
      expect(heard).toEqual([events[1]?.id, 'last']);
    } finally {
      listener.release(true);
      await sql.end({ timeout: 0 });
    }
  });

  test('a handler that makes its transaction read-only has failed, and not the inbox', async () => {
    const event = newEvent();
    const receiver = createReceiver({
      secret: 'x',
      inbox: postgresInbox(database.admin, { transactional: true }),
      logger: quiet,
      handlers: {
        'transfer.settled': async (_event, { tx }) => void (await tx.query('SET TRANSACTION READ ONLY')),
      },
    });
    expect(await receiver.handle(event, 'push')).toMatchObject({
      kind: 'failed',
      error: { code: 'ERR_HANDLER_FAILED' },
    });
  });
});
