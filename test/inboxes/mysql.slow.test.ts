import { createPool, type Pool } from 'mysql2/promise';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { afterAll, beforeAll, beforeEach, test } from 'vitest';
import { inboxClockContract, inboxContract, inboxTransactionContract } from '../contracts/index.js';
import { startMariadb } from '../services/mariadb.js';
import type { Service } from '../services/service.js';
import { describeWithMariadb } from '../services/with-mariadb.js';

describeWithMariadb('MySQL inbox over mysql2', () => {
  let server: Service;
  let pools: readonly [Pool, Pool];
  beforeAll(async () => {
    server = await startMariadb();
    pools = [createPool(server.url), createPool(server.url)];
    await migrateMysql(pools[0]);
  });
  afterAll(async () => {
    for (const pool of pools) await pool.end();
    await server.stop();
  });
  beforeEach(async () => {
    for (const table of ['events', 'notes']) await pools[0].query(`DELETE FROM stablehooks_${table}`);
  });

  for (const { name, run } of inboxContract)
    test(name, () => run({ inbox: mysqlInbox(pools[0]), second: mysqlInbox(pools[1]) }));

  /** The clock is that of the server, so the times that it has stored move instead. */
  async function setBack(ms: number): Promise<void> {
    const move = (table: string, columns: readonly string[]) =>
      pools[0].query(
        `UPDATE stablehooks_${table} SET ${columns.map((name) => `${name} = ${name} + ${ms}`).join()}`,
      );
    await move('events', ['received_at', 'updated_at', 'due_at']);
    await move('notes', ['lease_until', 'leased_at']);
  }
  for (const { name, run } of inboxClockContract)
    test(name, () => run({ inbox: mysqlInbox(pools[0]), second: mysqlInbox(pools[1]), setBack }));

  for (const { name, run } of inboxTransactionContract)
    test(name, async () => {
      const [inbox, second] = pools.map((pool) => mysqlInbox(pool, { transactional: true }));
      if (inbox && second) await run({ inbox, second });
    });
});
