import { createPool, type Pool } from 'mysql2/promise';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { afterAll, beforeAll, beforeEach, test } from 'vitest';
import { inboxContract, inboxTransactionContract } from '../contracts/index.js';
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

  for (const { name, run } of inboxTransactionContract)
    test(name, async () => {
      const [inbox, second] = pools.map((pool) => mysqlInbox(pool, { transactional: true }));
      if (inbox && second) await run({ inbox, second });
    });
});
