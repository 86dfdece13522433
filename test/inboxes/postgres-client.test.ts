import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { claimed, silent, someEvent } from './claimed.js';

const postgres = ownPostgres(
  'CREATE TABLE ledger (id text)',
  'CREATE TABLE accounts (id text PRIMARY KEY)',
  'CREATE TABLE entries (account text REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)',
);
const { pool: admin } = postgres;
let pool: pg.Pool;
beforeAll(() => {
  pool = new pg.Pool({ connectionString: postgres.server.url, max: 1 }).on('error', () => undefined);
});
beforeEach(async () => {
  await admin.query('TRUNCATE ledger');
});
afterAll(() => pool.end());

const entries = async () => (await admin.query('SELECT id FROM ledger ORDER BY id')).rows.map(({ id }) => id);

/** Claims a new event and runs its effect over this pool. */
async function run(effect: (tx: pg.PoolClient) => Promise<unknown>, { over = pool, leaseMs = 60_000 } = {}) {
  const inbox = postgresInbox(over, { transactional: true });
  const lease = await claimed(inbox, someEvent(), { leaseMs });
  return inbox.transaction?.(lease, async (tx) => void (await effect(tx)));
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

test('ctx.tx of a pool is a client of its driver: it takes callbacks and objects that send themselves', async () => {
  await run(async (tx) => {
    expect(tx).toBeInstanceOf(pg.Client);
    const result = await new Promise((resolve) =>
      tx.query('SELECT 1 AS value', (_, { rows }) => resolve(rows)),
    );
    expect(result).toEqual([{ value: 1 }]);
    const rows = await new Promise((resolve, reject) => {
      const query = tx.query(new pg.Query('SELECT 4 AS value'));
      const found: unknown[] = [];
      query.on('row', (row) => found.push(row));
      query.on('error', reject);
      query.on('end', () => resolve(found));
    });
    expect(rows).toEqual([{ value: 4 }]);
  });
});

test('ctx.tx of a pool refuses to be released, and every statement once the handler has ended', async () => {
  let late: pg.PoolClient | undefined;
  await run(async (tx) => {
    late = tx;
    expect(() => tx.release()).toThrow('releases the connection itself');
  });
  await expect(late?.query("INSERT INTO ledger VALUES ('late')")).rejects.toThrow('Await every statement');
  const error = await new Promise((resolve) => late?.query('SELECT 1', resolve));
  expect(error).toMatchObject({ code: 'ERR_HANDLER_FAILED' });
  expect(await entries()).toEqual([]);
});

test.each([
  // The end of the event is committed with it.
  ['COMMIT', ['before']],
  ['ROLLBACK', ['after']],
])(
  'a handler that sends %s and writes is not run again, because that write can be committed',
  async (end, left) => {
    const running = run(async (tx) => {
      await tx.query("INSERT INTO ledger VALUES ('before')");
      await tx.query(end).catch(() => undefined);
      if (end === 'ROLLBACK') await tx.query("INSERT INTO ledger VALUES ('after')");
    });
    await expect(running).rejects.toMatchObject({
      code: 'ERR_HANDLER_PERMANENT',
      message: expect.stringContaining('may be committed'),
    });
    expect(await entries()).toEqual(left);
  },
);

test.each(['COMMIT', 'ROLLBACK'])(
  'a handler that sends %s, begins another transaction and swallows an error in it is not run again',
  async (end) => {
    const running = run(async (tx) => {
      await tx.query(end);
      await tx.query("INSERT INTO ledger VALUES ('after')");
      await tx.query('BEGIN');
      await tx.query('SELECT 1 / 0').catch(() => undefined);
    });
    await expect(running).rejects.toMatchObject({ code: 'ERR_HANDLER_PERMANENT' });
  },
);

test('a deferred constraint that fails at COMMIT is the failure of the handler', async () => {
  const running = run((tx) => tx.query("INSERT INTO entries VALUES ('nobody')"));
  await expect(running).rejects.toMatchObject({
    code: 'ERR_HANDLER_FAILED',
    cause: { code: '23503' },
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
  expect(error).not.toMatchObject({ code: 'ERR_HANDLER_FAILED' });
  expect(error).not.toMatchObject({ name: 'PermanentError' });
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

test.each(['on', 'off'])(
  'no id and no key of an event is read as SQL, with standard_conforming_strings = %s',
  async (setting) => {
    const own = postgres.open({ max: 1, options: `-c standard_conforming_strings=${setting}` });
    const inbox = postgresInbox(own, { transactional: true });
    const attack = "COMMIT; INSERT INTO ledger VALUES ('attack'); --";
    const texts = ["'", "\\'", '\\', "''", '$1', '$2', '$$', '$&', "E'", '\n', '--', '/*', '"', 'é\u{1f600}'];
    const endings = ["'); ", "\\'); ", "\\\\'); ", "'', NULL); ", "\u02bc'); "].map((text) => text + attack);
    for (const text of [...texts, ...endings]) {
      const lease = await claimed(inbox, someEvent({ id: `${randomUUID()}${text}` }), { key: text });
      const effect = async (tx: pg.PoolClient) =>
        void (await tx.query('INSERT INTO ledger VALUES ($1)', [text]));
      expect(await inbox.transaction?.(lease, effect), text).toBe(true);
      expect(await inbox.find(lease.id)).toMatchObject({ state: 'done', key: text });
      const event = someEvent({ id: `${randomUUID()}${text}` });
      const json = JSON.stringify({ ...event, note: text });
      const first = inbox.firstLease?.(event, { origin: 'push', json, leaseMs: 60_000 });
      expect(first && (await inbox.transaction?.(first, () => undefined)), text).toBe(true);
      expect(await inbox.find(event.id)).toMatchObject({ state: 'done', event: { note: text } });
    }
    expect((await entries()).sort()).toEqual([...texts, ...endings].sort());
  },
);

test('a transaction_timeout that is set stays', async () => {
  const set = postgres.open({ max: 1, options: '-c transaction_timeout=40min' });
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
  expect(await read(pool)).toMatch(/^59\d{3}ms$|^1min$/);
});

test('inboxes of long schemas that differ in one character share a pool, with the time limit of their transactions', async () => {
  const limits: unknown[] = [];
  for (const letter of ['a', 'b']) {
    const schema = letter + 'x'.repeat(62);
    await migratePostgres(pool, { schema });
    const receiver = createReceiver({
      ...{ secret: 'x', inbox: postgresInbox(pool, { schema, transactional: true }), logger: silent },
      handlers: {
        'transfer.settled': async (_, { tx }) => {
          limits.push((await tx.query('SHOW transaction_timeout')).rows[0].transaction_timeout);
        },
      },
    });
    expect(await receiver.handle(someEvent(), 'push')).toMatchObject({ kind: 'handled' });
  }
  expect(limits).toEqual(['1min', '1min']);
});

test('statements that a pooler in transaction mode has lost are sent without their names', async () => {
  const own = postgres.open({ max: 1 });
  const receiver = createReceiver({
    ...{ secret: 'x', inbox: postgresInbox(own, { transactional: true }), logger: silent },
    handlers: { 'transfer.settled': ({ id }, { tx }) => tx.query('INSERT INTO ledger VALUES ($1)', [id]) },
  });
  const events = [someEvent(), someEvent(), someEvent()];
  for (const event of events) {
    expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'handled' });
    await own.query('DEALLOCATE ALL');
  }
  expect((await entries()).sort()).toEqual(events.map(({ id }) => id).sort());
});
