import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { neonPool } from '../services/neon.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';

let server: Service;
let admin: pg.Pool;
let pool: pg.Pool;
beforeAll(async () => {
  server = await startPostgres();
  admin = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
  pool = new pg.Pool({ connectionString: server.url, max: 1 }).on('error', () => undefined);
  await migratePostgres(admin);
  await admin.query('CREATE TABLE ledger (id text)');
  await admin.query('CREATE TABLE accounts (id text PRIMARY KEY)');
  await admin.query('CREATE TABLE entries (account text REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)');
});
beforeEach(async () => {
  await admin.query('TRUNCATE ledger');
});
afterAll(async () => {
  await Promise.all([pool.end(), admin.end()]);
  await server.stop();
});

const entries = async () => (await admin.query('SELECT id FROM ledger ORDER BY id')).rows.map(({ id }) => id);

/** Claims a new event and runs its effect over this pool. */
async function run(effect: (tx: pg.PoolClient) => Promise<unknown>, { over = pool, leaseMs = 60_000 } = {}) {
  const inbox = postgresInbox(over, { transactional: true });
  const event = { ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` };
  const claim = await inbox.claim(event, { leaseMs, origin: 'push' });
  if (claim.state !== 'claimed' || !inbox.transaction) throw new Error(claim.state);
  const { lease } = claim;
  return inbox.transaction(lease, async (tx) => void (await effect(tx)));
}

test('ctx.tx of a pool returns what the driver returns', async () => {
  await run(async (tx) => {
    const inserted = await tx.query("INSERT INTO ledger VALUES ('a'), ('b')");
    expect(inserted).toMatchObject({ command: 'INSERT', rowCount: 2 });
    const text = 'SELECT id, $1::int AS one FROM ledger ORDER BY id';
    const { fields, rows } = await tx.query(text, [1]);
    expect(fields.map(({ name }) => name)).toEqual(['id', 'one']);
    expect(rows).toEqual([
      { id: 'a', one: 1 },
      { id: 'b', one: 1 },
    ]);
    expect((await tx.query({ text, values: [1], rowMode: 'array' })).rows).toEqual([
      ['a', 1],
      ['b', 1],
    ]);
    expect((await tx.query({ text, rowMode: 'array' }, [2])).rows[0]).toEqual(['a', 2]);
    const types = { getTypeParser: () => (value: unknown) => `parsed ${value}` } as pg.CustomTypesConfig;
    expect((await tx.query({ text, types }, [1])).rows[0]).toEqual({ id: 'parsed a', one: 'parsed 1' });
    expect((await tx.query({ text: "SELECT 'no values' AS is" })).rows).toEqual([{ is: 'no values' }]);
  });
  expect(await entries()).toEqual(['a', 'b']);
});

test('ctx.tx of a pool prepares a named statement once, and takes a statement that is an object with getters', async () => {
  class Statement {
    readonly #text: string;
    readonly values: readonly unknown[];
    constructor(text: string, values: readonly unknown[]) {
      this.#text = text;
      this.values = values;
    }
    get text() {
      return this.#text;
    }
  }
  await run(async (tx) => {
    const named = { name: 'twice', text: 'SELECT $1::int AS value' };
    expect((await tx.query(named, [1])).rows).toEqual([{ value: 1 }]);
    expect((await tx.query(named, [2])).rows).toEqual([{ value: 2 }]);
    const prepared = "SELECT FROM pg_prepared_statements WHERE name = 'twice'";
    expect((await tx.query(prepared)).rowCount).toBe(1);
    const statement = new Statement('SELECT $1::int AS value', [3]) as unknown as pg.QueryConfig;
    expect((await tx.query(statement)).rows).toEqual([{ value: 3 }]);
  });
});

test('ctx.tx of a pool takes callbacks and objects that send themselves', async () => {
  await run(async (tx) => {
    const text = 'SELECT $1::int AS value';
    const results = await new Promise<readonly unknown[]>((resolve) => {
      const rows: unknown[] = [];
      tx.query('SELECT 1 AS value', (_, result) => rows.push(result.rows));
      tx.query(text, [2], (_, result) => rows.push(result.rows));
      tx.query({ text, values: [3] }, (_, result) => resolve([...rows, result.rows]));
    });
    expect(results).toEqual([[{ value: 1 }], [{ value: 2 }], [{ value: 3 }]]);
    const error = await new Promise((resolve) => tx.query('SELECT no_column', resolve)).catch(() => null);
    expect(error).toMatchObject({ code: '42703' });
    await expect(tx.query('SELECT 1')).rejects.toMatchObject({ code: '25P02' });
    throw new Error('rolled back');
  }).catch(() => undefined);
  await run(async (tx) => {
    const rows = await new Promise((resolve, reject) => {
      const query = tx.query(new pg.Query('SELECT 4 AS value'));
      const found: unknown[] = [];
      query.on('row', (row) => found.push(row));
      query.on('error', reject);
      query.on('end', () => resolve(found));
    });
    expect(rows).toEqual([{ value: 4 }]);
    expect(() => tx.query(new pg.Query('COMMIT'))).toThrow('belongs to the inbox');
    const failed = await new Promise((resolve) => tx.query('/* */ commit', resolve));
    expect(failed).toMatchObject({ code: 'ERR_HANDLER_FAILED' });
  });
});

test.each([
  ['pg', () => pool],
  ['neon', () => neonPool(server.url) as unknown as pg.Pool],
])('nested transactions over ctx.tx of %s are savepoints', async (_, open) => {
  const over = open();
  await run(
    async (tx) => {
      const add = (id: string) => tx.query('INSERT INTO ledger VALUES ($1)', [id]);
      await add('outer');
      await tx.query('begin isolation level serializable, read only');
      await add('kept');
      await tx.query('/* nested */ START TRANSACTION');
      await add('dropped');
      expect(await tx.query('ROLLBACK WORK')).toMatchObject({ command: 'ROLLBACK' });
      await tx.query('BEGIN;');
      await add('dropped, too');
      await expect(tx.query('SELECT 1 / 0')).rejects.toMatchObject({ code: '22012' });
      await expect(tx.query('COMMIT')).rejects.toMatchObject({ code: '25P02' });
      await tx.query('ABORT');
      await tx.query('END AND NO CHAIN');
      await tx.query('SAVEPOINT own');
      await add('dropped by name');
      await tx.query('ROLLBACK TO SAVEPOINT own');
      await tx.query('RELEASE own');
      await expect(tx.query('COMMIT')).rejects.toThrow('belongs to the inbox');
      await add('last');
    },
    { over },
  );
  expect(await entries()).toEqual(['kept', 'last', 'outer']);
  if (over !== pool) await over.end();
});

test('ctx.tx refuses to be released, ended or connected, and several statements in one text', async () => {
  await run(async (tx) => {
    expect(() => tx.release()).toThrow('do not call release()');
    expect(() => tx.end()).toThrow('do not call end()');
    expect(() => tx.connect()).toThrow('do not call connect()');
    expect(tx).toBeInstanceOf(pg.Client);
    expect(tx.on('notice', () => undefined)).toBe(tx);
    expect(tx.escapeIdentifier('a"b')).toBe('"a""b"');
  });
  await expect(run((tx) => tx.query('SELECT 1; SELECT 2'))).rejects.toMatchObject({ code: '42601' });
});

test('ctx.tx refuses every statement once the server has refused a COMMIT', async () => {
  const over = neonPool(server.url) as unknown as pg.Pool;
  const running = run(
    async (tx) => {
      // This driver sends several statements in one text.
      await expect(tx.query('SELECT 1; COMMIT')).rejects.toMatchObject({ code: 'SH001' });
      await expect(tx.query("INSERT INTO ledger VALUES ('after')")).rejects.toThrow('has ended');
    },
    { over },
  );
  await expect(running).rejects.toMatchObject({ code: 'ERR_HANDLER_FAILED' });
  expect(await entries()).toEqual([]);
  await over.end();
});

test('what a handler wrote after its own ROLLBACK is said to be committed, and the event is not run again', async () => {
  const over = neonPool(server.url) as unknown as pg.Pool;
  const running = run((tx) => tx.query("SELECT 1; ROLLBACK; INSERT INTO ledger VALUES ('after')"), { over });
  await expect(running).rejects.toMatchObject({
    code: 'ERR_HANDLER_PERMANENT',
    message: expect.stringContaining('may be committed'),
  });
  expect(await entries()).toEqual(['after']);
  await over.end();
});

test('an event whose handler wrote after its own ROLLBACK is not run again either if its connection is lost then', async () => {
  const over = neonPool(server.url) as unknown as pg.Pool;
  over.on('error', () => undefined);
  const running = run(
    async (tx) => {
      await tx.query("SELECT 1; ROLLBACK; INSERT INTO ledger VALUES ('after')");
      await admin.query(
        'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()',
      );
    },
    { over },
  );
  await expect(running).rejects.toMatchObject({ code: 'ERR_HANDLER_PERMANENT' });
  expect(await entries()).toEqual(['after']);
  await over.end();
});

test('a deferred constraint that fails at COMMIT is the failure of the handler', async () => {
  const running = run((tx) => tx.query("INSERT INTO entries VALUES ('nobody')"));
  await expect(running).rejects.toMatchObject({
    name: 'HandlerError',
    code: 'ERR_HANDLER_FAILED',
    cause: { code: '23503', message: expect.stringContaining('violates foreign key constraint') },
  });
  // The connection is returned in order.
  expect((await pool.query('SELECT count(*)::int AS entries FROM entries')).rows).toEqual([{ entries: 0 }]);
});

test('a serialization failure at COMMIT is the failure of the handler', async () => {
  await admin.query(`CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END $$`);
  await admin.query(`CREATE CONSTRAINT TRIGGER conflict AFTER INSERT ON accounts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION conflict()`);
  await expect(run((tx) => tx.query("INSERT INTO accounts VALUES ('a')"))).rejects.toMatchObject({
    name: 'HandlerError',
    cause: { code: '40001' },
  });
});

test('a connection that is lost during a transaction is no failure of the handler', async () => {
  const running = run(async (tx) => {
    const { rows } = await tx.query('SELECT pg_backend_pid() AS pid');
    await admin.query('SELECT pg_terminate_backend($1)', [rows[0].pid]);
  });
  const error = await running.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(Error);
  expect(error).not.toMatchObject({ name: 'HandlerError' });
  expect(error).not.toMatchObject({ name: 'PermanentError' });
});

test('a statement ends with the lease at the latest, and a shorter statement_timeout stays', async () => {
  const short = new pg.Pool({ connectionString: server.url, max: 1, statement_timeout: 700 }).on(
    'error',
    () => undefined,
  );
  const timeout = (over: pg.Pool, leaseMs: number) => {
    let ms = Number.NaN;
    return run(
      async (tx) => {
        const { rows } = await tx.query(
          "SELECT setting::float8 AS ms FROM pg_settings WHERE name = 'statement_timeout'",
        );
        ms = rows[0].ms;
      },
      { over, leaseMs },
    ).then(() => ms);
  };
  expect(await timeout(pool, 3_600_000)).toBeGreaterThan(3_000_000);
  expect(await timeout(pool, 3_600_000)).toBeLessThanOrEqual(3_600_000);
  expect(await timeout(pool, 0)).toBe(1_000);
  expect(await timeout(short, 3_600_000)).toBe(700);
  expect((await pool.query('SHOW statement_timeout')).rows).toEqual([{ statement_timeout: '0' }]);
  await short.end();
});

test('the server ends the transaction of a handler that sends one short statement after another when its lease has lapsed', async () => {
  let sent = 0;
  const running = run(
    async (tx) => {
      // More than a minute, if nothing ends it.
      for (; sent < 600; sent++) await tx.query('SELECT pg_sleep(0.1)');
    },
    { leaseMs: 1_000 },
  );
  // Of the server during a statement, or of the connection that is closed between two.
  await expect(running).rejects.toThrow();
  expect(sent).toBeGreaterThan(0);
  expect((await pool.query('SHOW transaction_timeout')).rows).toEqual([{ transaction_timeout: '0' }]);
});

test('a transaction_timeout that is set stays', async () => {
  const set = new pg.Pool({ connectionString: server.url, max: 1, options: '-c transaction_timeout=40min' });
  const read = async (over: pg.Pool) => {
    let setting: unknown;
    await run(
      async (tx) => (setting = (await tx.query('SHOW transaction_timeout')).rows[0].transaction_timeout),
      {
        over,
      },
    );
    return setting;
  };
  expect(await read(set)).toBe('40min');
  expect(await read(pool)).toMatch(/^6[01]\d{3}ms$|^61s$/);
  await set.end();
});
