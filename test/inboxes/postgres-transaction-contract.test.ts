import { transactionContract } from 'stablehooks/conformance';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { DATA_LAYERS } from './orm/data-layers.js';
import { type Database, startDatabase, underTest } from './orm/with-data-layers.js';

let database: Database;
beforeAll(async () => {
  database = await startDatabase();
});
afterAll(() => database.stop());

describe.each(Object.entries(DATA_LAYERS))('transactions over %s', (_, open) => {
  for (const { name, run } of transactionContract) test(name, () => run(underTest(database, open)));
});
