/** What a handler does to its transaction in MySQL, and the state in which its connection returns to the pool. */
import { createPool, type PoolConnection } from 'mysql2/promise';
import { createReceiver, type Handler, type Inbox, type InboxOperations } from 'stablehooks';
import { mysqlInbox } from 'stablehooks/inboxes/mysql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeWithMariadb } from '../services/with-mariadb.js';
import { claimed, silent, someEvent } from './claimed.js';
import { type AnyMysqlLayer, MYSQL_LAYERS } from './orm/mysql-layers.js';
import { type MysqlDatabase, startMysqlDatabase } from './orm/with-mysql-layers.js';

const FAILURE = new Error('The handler fails.');
const INSERT = 'INSERT INTO ledger (id) VALUES (?)';

const receiverOver = <Tx>(inbox: Inbox<Tx>, handler: Handler<'transfer.settled', Tx>) =>
  createReceiver({ secret: 'x', logger: silent, inbox, handlers: { 'transfer.settled': handler } });

const refusalOf = (statement: unknown) =>
  Promise.resolve(statement).then(
    () => undefined,
    (error: unknown) => error,
  );

function signal() {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

describeWithMariadb('transactions of MySQL', () => {
  let database: MysqlDatabase;
  beforeAll(async () => {
    database = await startMysqlDatabase();
    await database.admin.query('CREATE TABLE account (id INT PRIMARY KEY, sum INT NOT NULL)');
    await database.admin.query('INSERT INTO account VALUES (1, 0), (2, 0)');
  });
  afterAll(() => database.stop());

  const countEffects = async (id: string) =>
    (await database.select('SELECT entry FROM ledger WHERE id = ?', [id])).length;

  /** Writes over the pool's only connection, as an app does beside the inbox, and resolves to how many rows others see. */
  async function writeOver({ pool }: AnyMysqlLayer): Promise<number> {
    const { id } = someEvent();
    await (pool as typeof database.admin).query(INSERT, [id]);
    return countEffects(id);
  }

  describe.each(Object.entries(MYSQL_LAYERS))('over %s', (_, open) => {
    async function withLayer(use: (layer: AnyMysqlLayer) => Promise<void>): Promise<void> {
      const layer = await open({ url: database.server.url, connections: 1 });
      try {
        await use(layer);
      } finally {
        await layer.close();
      }
    }

    /** Gets into a deadlock whose victim is the transaction `tx`, which sends more behind, and rejects with its error. */
    async function deadlock({ raw }: AnyMysqlLayer, tx: unknown, behind: () => PromiseLike<unknown>[]) {
      const add = (account: number) => `UPDATE account SET sum = sum + 1 WHERE id = ${account}`;
      const other = await database.admin.getConnection();
      await other.query('START TRANSACTION');
      // The server rolls back the transaction that has written less.
      for (let row = 0; row < 50; row++) await other.query(INSERT, ['other']);
      await raw(tx, add(1));
      await other.query(add(2));
      const waiting = other.query(add(1));
      const victim = Promise.all([raw(tx, add(2)), ...behind()]);
      await Promise.allSettled([victim, waiting]);
      await other.query('ROLLBACK');
      other.release();
      await victim;
    }

    interface Act {
      readonly kind: 'failed' | 'dead';
      act(meet: (behind?: () => Promise<unknown>[]) => Promise<void>, write: () => Promise<unknown>): unknown;
    }
    const acts: Readonly<Record<string, Act>> = {
      'throws the error': { kind: 'failed', act: (meet) => meet() },
      'catches the error and goes on writing': {
        kind: 'dead',
        async act(meet, write) {
          expect(await refusalOf(meet())).toBeInstanceOf(Error);
          for (let row = 0; row < 2; row++) await write();
        },
      },
      'writes that it failed and throws the error': {
        kind: 'failed',
        act: (meet, write) =>
          meet().catch(async (error: unknown) => {
            await write();
            throw error;
          }),
      },
      'had sent more statements': { kind: 'failed', act: (meet, write) => meet(() => [write(), write()]) },
    };
    test.each(Object.entries(acts))(
      'the victim of a deadlock that %s leaves no row, and its next run leaves one',
      (_name, { act, kind }) =>
        withLayer(async (layer) => {
          const { pool, effect } = layer;
          const event = someEvent();
          let run = 0;
          const receiver = receiverOver(mysqlInbox(pool, { transactional: true }), async ({ id }, { tx }) => {
            run += 1;
            const write = () => effect(tx, id);
            await write();
            if (run === 1) await act((behind = () => []) => deadlock(layer, tx, behind), write);
          });
          expect(await receiver.handle(event, 'push')).toMatchObject({ kind });
          expect(await countEffects(event.id)).toBe(0);
          expect(await writeOver(layer)).toBe(1);
          await mysqlInbox(database.admin).requeue(event.id);
          expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
          expect(await countEffects(event.id)).toBe(1);
          await receiver.close();
        }),
    );

    const ends: Readonly<Record<string, (layer: AnyMysqlLayer, tx: unknown) => unknown>> = {
      returns: () => undefined,
      throws: () => Promise.reject(FAILURE),
      'sends COMMIT': ({ raw }, tx) => raw(tx, 'COMMIT'),
      'sends ROLLBACK': ({ raw }, tx) => raw(tx, 'ROLLBACK'),
      'sends COMMIT and throws': ({ raw }, tx) => raw(tx, 'COMMIT').then(() => Promise.reject(FAILURE)),
      'sends a statement that fails': ({ raw }, tx) => raw(tx, 'SELECT'),
      'returns before a statement': ({ raw }, tx) =>
        void raw(tx, 'SELECT 1').then(undefined, () => undefined),
    };
    test.each(Object.entries(ends))(
      'after a handler that %s, the app writes over its connection',
      (_name, end) =>
        withLayer(async (layer) => {
          const receiver = receiverOver(
            mysqlInbox(layer.pool, { transactional: true }),
            async ({ id }, { tx }) => {
              await layer.effect(tx, id);
              await end(layer, tx);
            },
          );
          await receiver.handle(someEvent(), 'push');
          expect(await writeOver(layer)).toBe(1);
          await receiver.close();
        }),
    );

    test('after a transaction whose lease was lost, the app writes over its connection', () =>
      withLayer(async (layer) => {
        const inbox = mysqlInbox(layer.pool, { transactional: true });
        for (const loses of ['before', 'during']) {
          const lease = await claimed(inbox);
          const other = mysqlInbox(database.admin);
          if (loses === 'before') await other.complete(lease);
          const effect = async () => void (await other.complete(lease));
          expect(await inbox.transaction?.(lease, effect)).toBe(false);
          expect(await writeOver(layer)).toBe(1);
        }
      }));
  });

  const methods = ['commit', 'rollback', 'beginTransaction'] as const;

  describe('over a pool of mysql2', () => {
    async function withPool(
      use: (inbox: Inbox<PoolConnection> & InboxOperations) => Promise<void>,
    ): Promise<void> {
      const pool = createPool({ uri: database.server.url, connectionLimit: 1 });
      try {
        await use(mysqlInbox(pool, { transactional: true }));
      } finally {
        await pool.end();
      }
    }

    test.each(methods)('%s is refused while the handler runs, with what to do instead', (method) =>
      withPool(async (inbox) => {
        for (const catches of [false, true]) {
          let run = 0;
          const event = someEvent();
          const receiver = receiverOver(inbox, async ({ id }, { tx }) => {
            run += 1;
            await tx.query(INSERT, [id]);
            if (run > 1) return;
            const refusal = await refusalOf(tx[method]());
            await tx.query(INSERT, [id]);
            if (!catches) throw refusal;
          });
          expect(await receiver.handle(event, 'push')).toMatchObject({
            kind: 'failed',
            error: {
              code: 'ERR_HANDLER_FAILED',
              message: expect.stringMatching(/Return .* to commit, or throw to roll back.* SAVEPOINT/),
            },
          });
          expect(await countEffects(event.id)).toBe(0);
          await inbox.requeue(event.id);
          expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
          expect(await countEffects(event.id)).toBe(1);
          await receiver.close();
        }
      }),
    );

    test.each(methods)(
      'a %s that a handler leaves behind does not reach the transaction of another event',
      (method) =>
        withPool(async (inbox) => {
          const later = signal();
          let left: Promise<unknown> | undefined;
          const receiver = receiverOver(inbox, async ({ id }, { tx }) => {
            await tx.query(INSERT, [id]);
            if (left === undefined) {
              left = later.promise.then(() => refusalOf(tx[method]()));
              return;
            }
            later.resolve();
            expect(await left).toMatchObject({ code: 'ERR_HANDLER_FAILED' });
            await tx.query(INSERT, [id]);
          });
          const [event, other] = [someEvent(), someEvent()];
          for (const one of [event, other])
            expect(await receiver.handle(one, 'push')).toMatchObject({ kind: 'handled' });
          expect([await countEffects(event.id), await countEffects(other.id)]).toEqual([1, 2]);
          await receiver.close();
        }),
    );
  });

  test.each(['commit', 'rollback'] as const)(
    '%s of a Knex transaction is refused, and the event has failed without an effect',
    async (method) => {
      const layer = await MYSQL_LAYERS['Knex over mysql2']?.({ url: database.server.url, connections: 1 });
      if (layer === undefined) return expect.fail('It has no adapter.');
      const event = someEvent();
      const receiver = receiverOver(
        mysqlInbox(layer.pool, { transactional: true }),
        async ({ id }, { tx }) => {
          await layer.effect(tx, id);
          await refusalOf((tx as Record<typeof method, () => unknown>)[method]());
        },
      );
      expect(await receiver.handle(event, 'push')).toMatchObject({
        kind: 'failed',
        error: { message: expect.stringMatching(/Return .* to commit, or throw to roll back/) },
      });
      expect(await countEffects(event.id)).toBe(0);
      expect(await writeOver(layer)).toBe(1);
      await receiver.close();
      await layer.close();
    },
  );

  test('a connection whose handler became a user without the right to restore it is closed', async () => {
    const { admin, server } = database;
    await admin.query("CREATE USER IF NOT EXISTS guest IDENTIFIED BY 'password'");
    const pool = createPool({ uri: server.url, connectionLimit: 1 });
    const threads: number[] = [];
    const receiver = receiverOver(mysqlInbox(pool, { transactional: true }), async ({ id }, { tx }) => {
      threads.push(tx.threadId);
      await tx.query(INSERT, [id]);
      if (threads.length === 1)
        await tx.changeUser({ user: 'guest', password: 'password', database: 'information_schema' });
    });
    const [event, next] = [someEvent(), someEvent()];
    expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'unavailable' });
    expect(await receiver.handle(next, 'push')).toMatchObject({ kind: 'handled' });
    expect([await countEffects(event.id), await countEffects(next.id)]).toEqual([0, 1]);
    expect(new Set(threads).size).toBe(2);
    await receiver.close();
    await pool.end();
  });
});
