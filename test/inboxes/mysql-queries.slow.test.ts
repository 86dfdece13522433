/** Which rows the statements of the MySQL inbox read, counted by the server. */
import { createPool, type Pool, type RowDataPacket } from 'mysql2/promise';
import { mysqlInbox } from 'stablehooks/inboxes/mysql';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeWithMariadb } from '../services/with-mariadb.js';
import { type MysqlDatabase, startMysqlDatabase } from './orm/with-mysql-layers.js';

const SIZE = 5_000;

describeWithMariadb('an inbox of many events', () => {
  let database: MysqlDatabase;
  let pool: Pool;
  beforeAll(async () => {
    database = await startMysqlDatabase();
    pool = createPool({ uri: database.server.url, connectionLimit: 1 });
    const inbox = mysqlInbox(pool);
    for (const [name, type] of [
      ['done', 'transfer.settled'],
      ['due', 'transfer.settled'],
      ['other', 'mint.completed'],
    ] as const) {
      const page = Array.from({ length: SIZE }, (_, index) => ({
        ...exampleEvent('transfer.settled'),
        ...{ id: `${name}_${index}`, type },
      }));
      // Events of one call are received at the same time.
      for (let start = 0; start < SIZE; start += 100) {
        const events = page.slice(start, start + 100);
        if (name === 'done') await inbox.ignore(events, { origin: 'pull' });
        else await inbox.record(events, { origin: 'pull', dueInMs: -1_000 });
      }
    }
    await pool.query('ANALYZE TABLE stablehooks_events');
  });
  afterAll(async () => {
    await pool.end();
    await database.stop();
  });

  /** How many rows and index entries the server reads for a step. */
  async function countReads(step: () => unknown): Promise<number> {
    await pool.query('FLUSH STATUS');
    await step();
    const [rows] = await pool.query<RowDataPacket[]>(
      "SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_key', 'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd_next')",
    );
    return rows.reduce((sum, row) => sum + Number(row['Value']), 0);
  }

  test('a page that is larger than a packet of the server is recorded', async () => {
    const [[limit]] = await pool.query<RowDataPacket[]>('SELECT @@max_allowed_packet AS bytes');
    const text = 'é'.repeat(60_000);
    // As many as one statement takes, so their size alone divides the page.
    const page = Array.from({ length: 200 }, (_, index) => ({
      ...exampleEvent('accept.confirmed'),
      ...{ id: `large_${index}`, payload: { text } },
    }));
    expect(Buffer.byteLength(JSON.stringify(page))).toBeGreaterThan(Number(limit?.['bytes']));
    const results = await mysqlInbox(pool).record(page, { origin: 'pull', dueInMs: 0 });
    expect(new Set(results)).toEqual(new Set(['new']));
  });

  const event = { ...exampleEvent('transfer.settled'), id: 'new' };
  const steps: Readonly<Record<string, (inbox: ReturnType<typeof mysqlInbox>) => unknown>> = {
    'a claim': (inbox) => inbox.claim(event, { leaseMs: 60_000, origin: 'push' }),
    'a claim with a key': (inbox) =>
      inbox.claim({ ...event, id: 'keyed' }, { leaseMs: 60_000, origin: 'push', key: 'k' }),
    'takeDue of 10': (inbox) =>
      inbox.takeDue({ limit: 10, visibilityTimeoutMs: 60_000, types: ['transfer.settled'] }),
    'a page of a list': (inbox) => inbox.list({ state: 'done', limit: 10, after: 'done_4000' }),
    'a page of a list, the newest first': (inbox) =>
      inbox.list({ state: 'done', limit: 10, after: 'done_1000', order: 'newest' }),
    'a requeue by id': (inbox) => inbox.requeue('due_7'),
    'a discard by id': (inbox) => inbox.discard({ ids: ['due_4999'], by: 'ana', reason: 'booked' }),
    find: (inbox) => inbox.find('done_3'),
  };
  test.each(Object.entries(steps))('%s reads no rows beyond its own', async (_, step) => {
    expect(await countReads(() => step(mysqlInbox(pool)))).toBeLessThan(400);
  });
});
