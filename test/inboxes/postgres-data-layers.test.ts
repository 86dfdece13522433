/** What a user of each data layer relies on; the whole suites run in postgres-data-layers.slow.test.ts. */
import { randomUUID } from 'node:crypto';
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
