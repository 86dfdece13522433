/** The suites of transactions and inboxes over each data layer of MySQL and a real MariaDB. */
import { randomUUID } from 'node:crypto';
import type { RowDataPacket } from 'mysql2/promise';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mysqlTransactionContract } from '../contracts/index.js';
import { driverContract } from '../driver-contract.js';
import { describeWithMariadb } from '../services/with-mariadb.js';
import { claimed } from './claimed.js';
import { type AnyMysqlLayer, MYSQL_LAYERS, WHOLE_MYSQL_LAYERS } from './orm/mysql-layers.js';
import { type MysqlDatabase, mysqlUnderTest, startMysqlDatabase } from './orm/with-mysql-layers.js';

/** Late statements over this layer can reach a transaction of another event: docs/exactly-once.md says so. */
const SENDS_LATE = /^Drizzle/;
const LEFT_BEHIND = /leaves behind is refused/;
/** The cases that each library meets in its own way: begin, roll back, nest, a late statement, a COMMIT. */
const OF_LIBRARY =
  /^a rehearsal|^a handler's effect|^the effect of a handler that throws|^a nested|leaves behind|that sends (?:BEGIN|COMMIT)|receives no connection/;

describeWithMariadb('data layers of MySQL', () => {
  let database: MysqlDatabase;
  beforeAll(async () => {
    database = await startMysqlDatabase();
  });
  afterAll(() => database.stop());

  describe.each(Object.entries(MYSQL_LAYERS))('transactions over %s', (layer, open) => {
    for (const { name, run } of mysqlTransactionContract) {
      if (!WHOLE_MYSQL_LAYERS.includes(layer) && !OF_LIBRARY.test(name)) continue;
      if (SENDS_LATE.test(layer) && LEFT_BEHIND.test(name)) continue;
      test(name, () => run(mysqlUnderTest(database, open)));
    }
  });

  // The suite of the inbox over mysql2 is in mysql.slow.test.ts.
  describe.each(Object.entries(MYSQL_LAYERS).slice(1))('the inbox over %s', (_, open) => {
    for (const { name, run } of driverContract) {
      test(name, async () => {
        const { server, admin } = database;
        for (const table of ['events', 'notes']) await admin.query(`DELETE FROM stablehooks_${table}`);
        const layers = [
          await open({ url: server.url, connections: 10 }),
          await open({ url: server.url, connections: 10 }),
        ];
        const [inbox, second] = layers.map(({ pool }) => mysqlInbox(pool));
        try {
          if (inbox && second) await run({ inbox, second });
        } finally {
          for (const { close } of layers) await close();
        }
      });
    }
  });

  /** Opens a layer whose sessions have this `sql_mode` as well. */
  async function withMode(
    name: string,
    open: (typeof MYSQL_LAYERS)[string],
    use: (layer: AnyMysqlLayer) => Promise<void>,
  ): Promise<void> {
    const { server, admin } = database;
    const [[mode] = []] = await admin.query<RowDataPacket[]>('SELECT @@GLOBAL.sql_mode AS before_it');
    await admin.query("SET GLOBAL sql_mode = CONCAT_WS(',', @@GLOBAL.sql_mode, ?)", [name]);
    const layer = await open({ url: server.url, connections: 2 });
    try {
      await use(layer);
    } finally {
      await layer.close();
      await admin.query('SET GLOBAL sql_mode = ?', [mode?.['before_it']]);
    }
  }

  test.each(Object.entries(MYSQL_LAYERS))(
    'over %s a session with NO_BACKSLASH_ESCAPES stores each text, and runs none of it',
    (_, open) =>
      withMode('NO_BACKSLASH_ESCAPES', open, async ({ pool }) => {
        const inbox = mysqlInbox(pool);
        for (const text of ["it's", "',(SELECT SLEEP(60)),NULL,NULL,NULL)-- ", '\\', '"\\"?', '✓ é 🪙']) {
          const event = exampleEvent('transfer.settled', {
            id: `evt_${randomUUID()} ${text}`,
            payload: { memo: text },
          });
          const lease = await claimed(inbox, event);
          await inbox.fail(lease, { retryAfterMs: null, error: text });
          const [found] = await inbox.list({ ids: [event.id], error: text, limit: 10 });
          expect(found).toMatchObject({ id: event.id, event, lastError: text, state: 'dead' });
          const other = { ...event, id: `${event.id} again` };
          await inbox.record([other], { dueInMs: 0, origin: 'pull' });
          expect(await inbox.find(other.id)).toMatchObject({ event: other });
        }
      }),
  );

  test.each(Object.entries(MYSQL_LAYERS))(
    'over %s a session with EMPTY_STRING_IS_NULL creates an inbox, and stores empty texts as they are',
    (name, open) =>
      withMode('EMPTY_STRING_IS_NULL', open, async ({ pool }) => {
        const prefix = name.replaceAll(/\W/g, '_');
        await migrateMysql(pool, { prefix });
        const inbox = mysqlInbox(pool, { prefix });
        const lease = await claimed(inbox);
        for (const result of [null, '']) await inbox.saveStep?.(lease, 'mail', result);
        await inbox.saveStep?.(lease, 'payout', null);
        expect(await inbox.readSteps?.(lease)).toMatchObject([{ result: '' }, { result: null }]);
        await inbox.fail(lease, { retryAfterMs: null, error: 'no' });
        expect(await inbox.requeue({ ids: [lease.id], steps: { payout: 'done' } })).toBe(1);
        expect(await inbox.steps(lease.id)).toMatchObject([{ result: '' }, { result: '' }]);
        await inbox.writeNote('note', '');
        expect(await inbox.readNote('note')).toBe('');
        expect(await inbox.importDone([randomUUID()])).toBe(1);
      }),
  );
});
