/** What the app and the server do to the connections of a MySQL inbox. */
import { createPool, type Pool, type PoolConnection, type RowDataPacket } from 'mysql2/promise';
import { createReceiver, type Handler, type Inbox } from 'stablehooks';
import { migrateMysql, mysqlInbox, mysqlMigrations } from 'stablehooks/inboxes/mysql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeWithMariadb } from '../services/with-mariadb.js';
import { claimed, silent, someEvent } from './claimed.js';
import { type AnyMysqlLayer, MYSQL_LAYERS } from './orm/mysql-layers.js';
import { type MysqlDatabase, startMysqlDatabase } from './orm/with-mysql-layers.js';

describeWithMariadb('a MySQL inbox', () => {
  let database: MysqlDatabase;
  beforeAll(async () => {
    database = await startMysqlDatabase();
  });
  afterAll(() => database.stop());

  async function withPool(use: (pool: Pool) => Promise<void>): Promise<void> {
    const pool = createPool({ uri: database.server.url, connectionLimit: 1 });
    try {
      await use(pool);
    } finally {
      await pool.end();
    }
  }

  const receiverOver = <Tx>(inbox: Inbox<Tx>, handler: Handler<'transfer.settled', Tx>) =>
    createReceiver({
      secret: 'x',
      logger: silent,
      inbox,
      handlers: { 'transfer.settled': handler },
    });

  const insert = (tx: PoolConnection, id: string) => tx.query('INSERT INTO ledger (id) VALUES (?)', [id]);
  const countEffects = async (id: string) =>
    (await database.select('SELECT entry FROM ledger WHERE id = ?', [id])).length;

  const threadOf = async (pool: Pool) => {
    const [[row]] = await pool.query<RowDataPacket[]>('SELECT CONNECTION_ID() AS id');
    return row?.['id'];
  };

  describe('a connection that the app released with an open transaction', () => {
    for (const leave of ['START TRANSACTION', 'SET autocommit = 0']) {
      test(`is closed after ${leave}, its leftovers are rolled back, and the delivery is answered 503`, () =>
        withPool(async (pool) => {
          const [left, event] = [someEvent(), someEvent()];
          const connection = await pool.getConnection();
          await connection.query(leave);
          await insert(connection, left.id);
          connection.release();
          const before = connection.threadId;
          const receiver = receiverOver(mysqlInbox(pool, { transactional: true }), (_, { tx }) =>
            insert(tx, event.id),
          );
          const { kind, error } = await receiver.handle(event, 'push');
          expect([kind, String(error?.cause)]).toEqual([
            'unavailable',
            expect.stringContaining('had an open transaction'),
          ]);
          expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
          expect(await threadOf(pool)).not.toBe(before);
          expect([await countEffects(left.id), await countEffects(event.id)]).toEqual([0, 1]);
          await receiver.close();
        }));
    }
  });

  test.each(Object.entries(MYSQL_LAYERS))(
    'over %s, a connection whose server became read-only is closed, and the next one is used',
    async (_, open) => {
      const { admin, server } = database;
      await admin.query("CREATE USER IF NOT EXISTS app IDENTIFIED BY 'password'");
      await admin.query('GRANT ALL ON mysql.* TO app');
      const url = server.url.replace('root', 'app:password');
      const { pool, effect, close }: AnyMysqlLayer = await open({ url, connections: 1 });
      const event = someEvent();
      const receiver = receiverOver(mysqlInbox(pool, { transactional: true }), ({ id }, { tx }) =>
        effect(tx, id),
      );
      const threads = () =>
        database.select("SELECT id FROM information_schema.processlist WHERE user = 'app'");
      await receiver.handle(someEvent(), 'push');
      const before = await threads();
      await admin.query('SET GLOBAL read_only = 1');
      try {
        expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'unavailable' });
      } finally {
        await admin.query('SET GLOBAL read_only = 0');
      }
      await expect.poll(async () => (await receiver.handle(event, 'push')).kind).toMatch(/handled|duplicate/);
      expect(await threads()).not.toEqual(expect.arrayContaining([...before]));
      expect(await countEffects(event.id)).toBe(1);
      await receiver.close();
      await close();
    },
  );

  test.each(Object.entries(MYSQL_LAYERS).slice(2))(
    'over %s, the leftovers of a connection that the app released with an open transaction are rolled back',
    async (_, open) => {
      const { pool, effect, close } = await open({ url: database.server.url, connections: 1 });
      if (!('transaction' in pool)) return expect.fail('It has no adapter.');
      const [left, event] = [someEvent(), someEvent()];
      await pool.query('START TRANSACTION');
      await pool.query('INSERT INTO ledger (id) VALUES (?)', [left.id]);
      const receiver = receiverOver(mysqlInbox(pool, { transactional: true }), ({ id }, { tx }) =>
        effect(tx, id),
      );
      const { kind, error } = await receiver.handle(event, 'push');
      expect([kind, String(error?.cause)]).toEqual([
        'unavailable',
        expect.stringContaining('had an open transaction'),
      ]);
      expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
      expect([await countEffects(left.id), await countEffects(event.id)]).toEqual([0, 1]);
      await receiver.close();
      await close();
    },
  );

  test('the isolation level and autocommit of a connection stay as the app has set them', () =>
    withPool(async (pool) => {
      await pool.query('SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE');
      await pool.query('SET autocommit = 0');
      const receiver = receiverOver(mysqlInbox(pool, { transactional: true }), ({ id }, { tx }) =>
        insert(tx, id),
      );
      const event = someEvent();
      expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
      const [[row]] = await pool.query<RowDataPacket[]>(
        'SELECT @@tx_isolation AS level, @@autocommit AS auto',
      );
      expect(row).toEqual({ level: 'SERIALIZABLE', auto: 0 });
      expect(await countEffects(event.id)).toBe(1);
      await receiver.close();
    }));

  test('migrateMysql refuses a connection that cannot send every character', async () => {
    const pool = createPool({ uri: database.server.url, charset: 'latin1' });
    await expect(migrateMysql(pool)).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringMatching(/latin1.*utf8mb4/),
    });
    await pool.end();
  });

  test('any number of processes migrate at the same time and again, and a user without the right to create can as well', async () => {
    const { admin, server } = database;
    const prefix = 'other_prefix';
    await Promise.all(Array.from({ length: 8 }, () => migrateMysql(admin, { prefix })));
    for (const statement of mysqlMigrations({ prefix })) await admin.query(statement);
    await admin.query("CREATE USER IF NOT EXISTS narrow IDENTIFIED BY 'password'");
    await admin.query('GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON mysql.* TO narrow');
    const pool = createPool({ uri: server.url.replace('root', 'narrow:password'), connectionLimit: 1 });
    await migrateMysql(pool, { prefix });
    const inbox = mysqlInbox(pool, { prefix });
    expect(await inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' })).toEqual(['new']);
    const lease = await claimed(inbox);
    for (const result of [null, undefined, '1'])
      expect(await inbox.saveStep?.(lease, 'mail', result)).toBe(true);
    expect(await inbox.complete(lease)).toBe(true);
    expect(await inbox.prune({ olderThanMs: 0 })).toBe(1);
    await pool.end();
  });

  test.each([false, true])(
    'tables of another release are refused with what to do, within a minute after it wrote them (transactional: %s)',
    async (transactional) => {
      const { admin } = database;
      const [prefix, clock] = [`released_${transactional}`, { elapsed: 0 }];
      await migrateMysql(admin, { prefix });
      const options = { prefix, runtime: { elapsed: () => clock.elapsed } };
      const inbox = transactional
        ? mysqlInbox(admin, { ...options, transactional: true })
        : mysqlInbox(admin, options);
      const ran: string[] = [];
      const receiver = receiverOver<unknown>(inbox, ({ id }) => void ran.push(id));
      expect(await receiver.handle(someEvent(), 'push')).toMatchObject({ kind: 'handled' });
      for (const [version, fix] of [
        ['stablehooks, version 2', /newer release .* version 2, but .* version 1\. Upgrade stablehooks/],
        ['', /older release .* migrateMysql/],
      ] as const) {
        await admin.query(`ALTER TABLE ${prefix}_events COMMENT ?`, [version]);
        clock.elapsed += 60_000;
        expect(await receiver.handle(someEvent(), 'push')).toMatchObject({
          ...{ kind: 'failed', error: { code: 'ERR_CONFIG_INVALID', message: expect.stringMatching(fix) } },
        });
      }
      expect(ran).toHaveLength(1);
      await admin.query(`ALTER TABLE ${prefix}_events COMMENT 'stablehooks, version 1'`);
      expect(await receiver.handle(someEvent(), 'push')).toMatchObject({ kind: 'handled' });
    },
  );

  test.each(['ORACLE', 'ANSI', 'NO_BACKSLASH_ESCAPES,EMPTY_STRING_IS_NULL'])(
    'sessions with the sql_mode %s run events over tables that another session has migrated',
    (mode) =>
      withPool(async (pool) => {
        await migrateMysql(pool);
        await pool.query('SET sql_mode = ?', [mode]);
        const event = someEvent();
        const receiver = receiverOver(mysqlInbox(pool, { transactional: true }), ({ id }, { tx }) =>
          insert(tx, id),
        );
        expect([
          (await receiver.handle(event, 'push')).kind,
          (await receiver.handle(event, 'push')).kind,
        ]).toEqual(['handled', 'duplicate']);
        expect(await countEffects(event.id)).toBe(1);
        const inbox = mysqlInbox(pool);
        const waiting = someEvent();
        expect(await inbox.record([waiting], { dueInMs: 60_000, origin: 'pull' })).toEqual(['new']);
        expect(await inbox.list({ ids: [waiting.id, event.id], limit: 9 })).toHaveLength(2);
        expect(await inbox.discard({ ids: [waiting.id], by: 'ana', reason: 'booked' })).toBe(1);
      }),
  );

  test('an inbox without its tables says that the migration is missing', async () => {
    const inbox = mysqlInbox(database.admin, { prefix: 'missing' });
    const failing = [
      () => inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' }),
      () => inbox.find('evt'),
    ];
    for (const step of failing)
      await expect(step()).rejects.toMatchObject({
        code: 'ERR_CONFIG_INVALID',
        message: expect.stringContaining('missing_…'),
      });
  });

  test('the type of ctx.tx is the connection of the pool only with a transactional inbox', () => {
    const pool = createPool(database.server.url);
    createReceiver({
      secret: 'x',
      inbox: mysqlInbox(pool, { transactional: true }),
      handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies PoolConnection) },
    });
    createReceiver({
      secret: 'x',
      inbox: mysqlInbox(pool),
      handlers: { 'accept.confirmed': (_, { tx }) => void (tx satisfies undefined) },
    });
  });
});
