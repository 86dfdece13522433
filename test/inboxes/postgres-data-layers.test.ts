/** What a user of each data layer relies on; the whole suites run in postgres-data-layers.slow.test.ts. */
import { randomUUID } from 'node:crypto';
import createKnex from 'knex';
import postgres from 'postgres';
import { createReceiver } from 'stablehooks';
import { type ContractCase, type TransactionsUnderTest, transactionContract } from 'stablehooks/conformance';
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  fromTypeOrm,
  postgresInbox,
} from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DATA_LAYERS } from './orm/data-layers.js';
import { type Database, startDatabase, underTest } from './orm/with-data-layers.js';

let database: Database;
beforeAll(async () => {
  database = await startDatabase();
});
afterAll(() => database.stop());

const MAIN = [
  'a nested transaction commits and rolls back with the outer one',
  'a nested transaction that fails is rolled back, and the outer one can go on',
  'a handler that times out writes nothing, also when it goes on',
  'a ROLLBACK that a handler leaves behind is refused, and ends no transaction of another event',
  'a transaction that gets no connection in time rejects, and is no failure of the handler',
  'a handler that sends COMMIT leaves at most one effect, and is not handled without one',
  'a handler that sends ROLLBACK, writes, sends BEGIN and fails a statement leaves at most one effect',
];

function caseNamed(name: string): ContractCase<TransactionsUnderTest<unknown>> {
  const found = transactionContract.find((one) => one.name === name);
  if (found === undefined) throw new Error(`transactionContract has no case "${name}".`);
  return found;
}

describe.each(Object.entries(DATA_LAYERS))('transactions over %s', (layer, open) => {
  test.each(MAIN)('%s', (name) => caseNamed(name).run(underTest(database, open)));

  test('the error of a statement of the inbox has its SQLSTATE and quotes no event', async () => {
    const opened = await open({ url: database.server.url, connections: 1 });
    try {
      const inbox = postgresInbox(opened.pool, { schema: 'missing' });
      const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
      const error: Error = await inbox.claim(event, { leaseMs: 1_000, origin: 'push' }).then(
        () => expect.fail(`The claim over ${layer} succeeded.`),
        (thrown) => thrown,
      );
      expect(error).toMatchObject({ code: '3F000' });
      expect(error.message).toMatch(/^schema "missing" does not exist/);
      expect(error.message).not.toContain(event.id);
    } finally {
      await opened.close();
    }
  });
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

  test('of postgres.js: prepare is refused', async () => {
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
            await tx.prepare('name');
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
