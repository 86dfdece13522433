import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'libsql';
import { createReceiver } from 'stablehooks';
import { type SqliteLike, sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { claimed, silent, someEvent } from './claimed.js';
import { connect, drivers, freshPath, type NodeSqlite, nodeSqlite } from './sqlite-drivers.js';

const HOUR_MS = 3_600_000;
const LEASE = { leaseMs: HOUR_MS, origin: 'push' } as const;
const LEASED = { holder: 'a', leaseMs: HOUR_MS };
const REFUSED = expect.objectContaining({ code: 'ERR_CONFIG_INVALID' });

const event = (id: string) => someEvent({ id });

/** A connection, and the errors that it has thrown. */
function watched(db: SqliteLike, { onFirstFailure }: { readonly onFirstFailure?: () => void } = {}) {
  const failures: unknown[] = [];
  function attempt<Value>(work: () => Value): Value {
    try {
      return work();
    } catch (error) {
      if (failures.push(error) === 1) onFirstFailure?.();
      throw error;
    }
  }
  const connection: SqliteLike = {
    exec: (sql) => attempt(() => db.exec(sql)),
    prepare: (sql) => {
      const statement = attempt(() => db.prepare(sql));
      return {
        all: (...values) => attempt(() => statement.all(...values)),
        run: (...values) => attempt(() => statement.run(...values)),
      };
    },
  };
  return { connection, failures };
}

describe('the SQLite file', () => {
  test.each(['removed', 'replaced'])(
    'deliveries are answered 503 from a few seconds after the file was %s under the process',
    async (what) => {
      const path = freshPath();
      const clock = { elapsed: 0 };
      const inbox = sqliteInbox(connect(path), {
        transactional: true,
        runtime: { elapsed: () => clock.elapsed },
      });
      const receiver = createReceiver({
        ...{ secret: 'x', inbox, logger: silent },
        handlers: { 'transfer.settled': () => undefined },
      });
      const deliver = async () => (await receiver.handle(someEvent(), 'push')).kind;
      expect(await deliver()).toBe('handled');
      if (what === 'removed') rmSync(path);
      else {
        sqliteInbox(connect(`${path}.new`));
        renameSync(`${path}.new`, path);
      }
      clock.elapsed += 2_000;
      expect(await deliver()).toBe('unavailable');
      await expect(inbox.ignore([someEvent()], { origin: 'push' })).rejects.toThrow('removed or replaced');
    },
  );

  test('the log that grew while a reader stayed is cut when it has left', async () => {
    const path = freshPath();
    const inbox = sqliteInbox(connect(path));
    const reader = connect(path);
    await inbox.record([someEvent()], { dueInMs: 0, origin: 'pull' });
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM stablehooks_events').all();
    const sizeOfLog = () => statSync(`${path}-wal`).size;
    const large = () => someEvent({ payload: { text: 'x'.repeat(1_000_000) } });
    for (let count = 0; count < 30; count++) await inbox.record([large()], { dueInMs: 0, origin: 'pull' });
    expect(sizeOfLog()).toBeGreaterThan(30_000_000);
    reader.exec('COMMIT');
    for (let count = 0; count < 2; count++) await inbox.record([large()], { dueInMs: 0, origin: 'pull' });
    expect(sizeOfLog()).toBeLessThan(17_000_000);
  });

  test('a file that is closed and opened again keeps every event and note', async () => {
    const path = freshPath();
    const before = connect(path);
    const first = sqliteInbox(before);
    await first.complete(await claimed(first, event('done')));
    await first.claim(event('leased'), LEASE);
    await first.record([event('waiting')], { dueInMs: 0, origin: 'pull' });
    await first.leaseNote('a note', LEASED);
    await first.writeNote('a note', 'text');
    const ids = ['done', 'leased', 'waiting'];
    const records = await Promise.all(ids.map((id) => first.find(id)));
    before.close();

    const second = sqliteInbox(connect(path));
    expect(await Promise.all(ids.map((id) => second.find(id)))).toEqual(records);
    expect((await second.claim(event('done'), LEASE)).state).toBe('done');
    expect((await second.claim(event('leased'), LEASE)).state).toBe('leased');
    expect(await second.readNote('a note')).toBe('text');
    expect(await second.leaseNote('a note', { ...LEASED, holder: 'b' })).toBe(false);
  });

  test('sqliteInbox over a file is durable and sets WAL', () => {
    const db = connect(freshPath());
    expect(sqliteInbox(db).durable).toBe(true);
    expect(db.prepare('PRAGMA journal_mode').all()).toMatchObject([{ journal_mode: 'wal' }]);
  });

  test.for([
    ['OFF', 0, 2],
    ['NORMAL', 1, 2],
    ['FULL', 2, 2],
    ['EXTRA', 3, 3],
  ])(
    'a claim does not wait for the disk, every other step does, and %s stays the level of the app',
    async ([name, own, flushing]) => {
      const db = connect(freshPath());
      db.exec(`PRAGMA synchronous = ${name}`);
      const level = () =>
        (db.prepare('PRAGMA synchronous').all() as { synchronous: number }[])[0]?.synchronous;
      const levels: (number | undefined)[] = [];
      const exec = (sql: string) => {
        if (sql === 'COMMIT') levels.push(level());
        return db.exec(sql);
      };
      const inbox = sqliteInbox({ exec, prepare: (sql) => db.prepare(sql) }, { transactional: true });
      levels.length = 0;
      const [one, other] = [await claimed(inbox), await claimed(inbox)];
      expect(levels.splice(0)).toEqual([1, 1]);
      await inbox.transaction?.(one, () => undefined);
      await inbox.complete(other);
      await inbox.record([event('third')], { dueInMs: 0, origin: 'pull' });
      expect(levels).toEqual([flushing, flushing, flushing]);
      expect(level()).toBe(own);
    },
  );

  test('sqliteInbox sets the busy timeout of its connection to `busyTimeoutMs`, which is 5 s by default', () => {
    const db = connect(freshPath());
    const timeout = () => db.prepare('PRAGMA busy_timeout').all();
    sqliteInbox(db);
    expect(timeout()).toMatchObject([{ timeout: 5_000 }]);
    sqliteInbox(db, { busyTimeoutMs: 70 });
    expect(timeout()).toMatchObject([{ timeout: 70 }]);
    sqliteInbox(db, { busyTimeoutMs: 0 });
    expect(timeout()).toMatchObject([{ timeout: 0 }]);
    expect(() => sqliteInbox(db, { busyTimeoutMs: -1 })).toThrow(/`busyTimeoutMs`/);
  });

  test.for(drivers)('sqliteInbox over $name is not durable without a file of its own', ({ open }) => {
    // SQLite opens an empty path as a temporary file.
    for (const path of [':memory:', '']) {
      const db = open(path);
      expect(sqliteInbox(db).durable, path).toBe(false);
      db.close();
    }
  });

  test('the SQLite inbox keeps the whole of an error with NUL and half a surrogate pair', async () => {
    const inbox = sqliteInbox(connect(freshPath()));
    const lease = await claimed(inbox, event('odd'));
    const error = `no\u0000 ${'x'.repeat(995)}😀`;
    await inbox.fail(lease, { retryAfterMs: 0.5, error });
    const record = await inbox.find('odd');
    const kept = `no\ufffd ${'x'.repeat(995)}\ufffd`;
    expect(record?.lastError).toBe(kept);
    expect(record?.history[0]?.error).toBe(kept);
  });

  test('sqliteInbox does not change the tables and the user_version of an app in the same file', async () => {
    const db = connect(freshPath());
    db.exec("CREATE TABLE orders (id TEXT); INSERT INTO orders VALUES ('o1'); PRAGMA user_version = 41");
    await sqliteInbox(db).claim(event('a'), LEASE);
    expect(db.prepare('SELECT id FROM orders').all()).toMatchObject([{ id: 'o1' }]);
    expect(db.prepare('PRAGMA user_version').all()).toMatchObject([{ user_version: 41 }]);
  });
});

test('two prefixes in one file share nothing, and a prefix that SQL would not read as a name is refused', async () => {
  const path = freshPath();
  const [usual, other] = [sqliteInbox(connect(path)), sqliteInbox(connect(path), { prefix: 'tenant_b' })];
  for (const inbox of [usual, other]) {
    await inbox.complete(await claimed(inbox, event('a')));
    expect(await inbox.find('a')).toMatchObject({ state: 'done', attempts: 1 });
  }
  await other.record([event('b')], { dueInMs: 0, origin: 'pull' });
  await other.leaseNote('a note', { holder: 'a', leaseMs: HOUR_MS });
  expect(await usual.find('b')).toBeUndefined();
  expect(await usual.leaseNote('a note', { holder: 'b', leaseMs: 0 })).toBe(true);
  const again = sqliteInbox(connect(path), { prefix: 'tenant_b' });
  expect(await again.find('b')).toMatchObject({ state: 'received' });
  for (const prefix of ['a', 'a_events', 'a_steps', 'a_unknown', 'a_key'])
    sqliteInbox(connect(path), { prefix });
  expect(() => sqliteInbox(connect(path), { prefix: 'a-b' })).toThrow(REFUSED);
});

describe('migrations of the SQLite file', () => {
  test('a file of version 0 is migrated', async () => {
    const db = connect(freshPath());
    db.exec('CREATE TABLE stablehooks_schema (one INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT');
    db.exec('INSERT INTO stablehooks_schema VALUES (1, 0)');
    expect((await sqliteInbox(db).claim(event('a'), LEASE)).state).toBe('claimed');
    expect((await sqliteInbox(db).claim(event('a'), LEASE)).state).toBe('leased');
  });

  test('a file that a newer release wrote is refused and not changed', async () => {
    const db = connect(freshPath());
    await sqliteInbox(db).claim(event('a'), LEASE);
    db.exec('UPDATE stablehooks_schema SET version = 999');
    expect(() => sqliteInbox(db)).toThrow(REFUSED);
    expect(() => sqliteInbox(db)).toThrow(/newer release.*999/);
    expect(db.prepare('SELECT version FROM stablehooks_schema').all()).toMatchObject([{ version: 999 }]);
  });

  test('a migration that fails changes nothing', () => {
    const db = connect(freshPath());
    db.exec('CREATE TABLE stablehooks_notes (something TEXT)');
    expect(() => sqliteInbox(db)).toThrow(REFUSED);
    expect(db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()).toMatchObject([
      { name: 'stablehooks_notes' },
    ]);
  });
});

describe('a file that sqliteInbox cannot use', () => {
  test('a file that is not a database is refused with the cause', () => {
    const path = freshPath();
    writeFileSync(path, 'not a database, but long enough to be read as one. '.repeat(100));
    const db = connect(path);
    expect(() => sqliteInbox(db)).toThrow(REFUSED);
    expect(() => sqliteInbox(db)).toThrow(
      expect.objectContaining({
        cause: expect.objectContaining({ message: expect.stringMatching(/database/) }),
      }),
    );
  });

  test('a connection that cannot write is refused', () => {
    const db = connect(freshPath());
    db.exec('PRAGMA query_only = ON');
    expect(() => sqliteInbox(db)).toThrow(REFUSED);
  });

  test('a connection with query_only opens a file with tables while another process writes', async () => {
    const path = freshPath();
    const writer = connect(path);
    sqliteInbox(writer);
    writer.exec('BEGIN IMMEDIATE');
    const reader = connect(path);
    reader.exec('PRAGMA query_only = ON');
    expect(await sqliteInbox(reader, { busyTimeoutMs: 0 }).find('evt_1')).toBeUndefined();
  });

  test('a file whose journal cannot be written is refused at the first attempt', () => {
    const path = freshPath();
    mkdirSync(`${path}-journal`);
    const { connection, failures } = watched(connect(path));
    expect(() => sqliteInbox(connection)).toThrow(REFUSED);
    expect(failures).toHaveLength(1);
  });

  test('a connection that reads integers as BigInt or rows as arrays is refused, with the settings to leave off', () => {
    const safe = new Database(freshPath());
    onTestFinished(() => void safe.close());
    const arrays: SqliteLike = {
      exec: (sql) => safe.exec(sql),
      prepare: (sql) => ({
        all: (...values) =>
          safe
            .prepare(sql)
            .raw()
            .all(...values),
        run: (...values) => safe.prepare(sql).run(...values),
      }),
    };
    expect(() => sqliteInbox(arrays)).toThrow(REFUSED);
    expect(() => sqliteInbox(arrays)).toThrow(/returnArrays/);
    safe.defaultSafeIntegers(true);
    expect(() => sqliteInbox(safe)).toThrow(REFUSED);
    expect(() => sqliteInbox(safe)).toThrow(/defaultSafeIntegers/);
    expect(safe.prepare('SELECT name FROM sqlite_master').all()).toEqual([]);
    safe.defaultSafeIntegers(false);
    expect(sqliteInbox(safe)).toMatchObject({ durable: true });
  });

  test('a connection that is set to BigInt after it was passed still reads numbers for the inbox', async () => {
    const db = new Database(freshPath());
    onTestFinished(() => void db.close());
    const inbox = sqliteInbox(db);
    db.defaultSafeIntegers(true);
    expect(await claimed(inbox, event('a'))).toMatchObject({ attempt: 1 });
    expect((await inbox.find('a'))?.attempts).toBe(1);
  });
});

describe('a file that another process keeps locked', () => {
  test('is refused after the busy timeout', () => {
    const path = freshPath();
    connect(path).exec('BEGIN EXCLUSIVE');
    expect(() => sqliteInbox(connect(path), { busyTimeoutMs: 30 })).toThrow(REFUSED);
  });

  /** A connection to a locked file, whose lock is released when that has failed once. */
  function lockedOnce() {
    const path = freshPath();
    const holder = connect(path);
    holder.exec('BEGIN IMMEDIATE');
    return watched(connect(path), { onFirstFailure: () => holder.exec('ROLLBACK') });
  }

  test('is opened when the lock is released within the busy timeout', async () => {
    const { connection, failures } = lockedOnce();
    const inbox = sqliteInbox(connection, { busyTimeoutMs: 60_000 });
    expect(failures).toEqual([expect.objectContaining({ message: expect.stringContaining('locked') })]);
    expect((await inbox.claim(event('a'), LEASE)).state).toBe('claimed');
  });

  test('is refused at the first attempt with `busyTimeoutMs: 0`', async () => {
    const { connection, failures } = lockedOnce();
    const open = async () => sqliteInbox(connection, { busyTimeoutMs: 0 });
    const refused = await open().catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'ERR_CONFIG_INVALID', cause: failures[0] });
    expect(failures).toHaveLength(1);
  });
});

describe('sqliteInbox with a path', () => {
  /** What this runtime has as `node:sqlite` until the test ends. */
  function provideNodeSqlite(module: object | undefined) {
    const { getBuiltinModule } = process;
    process.getBuiltinModule = ((id: string) =>
      id === 'node:sqlite' ? module : getBuiltinModule(id)) as typeof getBuiltinModule;
    onTestFinished(() => {
      process.getBuiltinModule = getBuiltinModule;
    });
  }

  // Node 20 has no node:sqlite. The connections of libsql have its methods.
  const { DatabaseSync }: NodeSqlite = nodeSqlite ?? { DatabaseSync: Database };

  test('a path that cannot be opened is refused', () => {
    provideNodeSqlite({ DatabaseSync });
    expect(() => sqliteInbox(dirname(freshPath()))).toThrow(REFUSED);
  });

  test('a path without node:sqlite is refused, and the message says what to pass', () => {
    provideNodeSqlite(undefined);
    expect(() => sqliteInbox(freshPath())).toThrow(REFUSED);
    expect(() => sqliteInbox(freshPath())).toThrow(/better-sqlite3, libsql/);
  });

  test('a path is opened by node:sqlite and closed by inbox.close', async () => {
    provideNodeSqlite({ DatabaseSync });
    const path = freshPath();
    const inbox = sqliteInbox(path);
    await inbox.claim(event('a'), LEASE);
    expect((await sqliteInbox(connect(path)).claim(event('a'), LEASE)).state).toBe('leased');
    inbox.close();
    await expect(inbox.claim(event('b'), LEASE)).rejects.toThrow();
  });

  test('inbox.close leaves a connection open that it was given', async () => {
    const db = connect(freshPath());
    const inbox = sqliteInbox(db);
    inbox.close();
    expect((await inbox.claim(event('a'), LEASE)).state).toBe('claimed');
  });

  test('a path that is refused leaves no connection open', () => {
    const open = new Set<object>();
    class Counted extends DatabaseSync {
      constructor(path: string) {
        super(path);
        open.add(this);
      }
      override close() {
        super.close();
        open.delete(this);
      }
    }
    provideNodeSqlite({ DatabaseSync: Counted });
    const path = freshPath();
    const inbox = sqliteInbox(path);
    expect(open.size).toBe(1);
    inbox.close();
    connect(path).exec('UPDATE stablehooks_schema SET version = 999');
    expect(() => sqliteInbox(path)).toThrow(REFUSED);
    expect(open.size).toBe(0);
  });
});

describe('the SQLite inbox in use', () => {
  test('an inbox whose file is locked for longer than the busy timeout rejects, and works afterwards', async () => {
    const path = freshPath();
    const inbox = sqliteInbox(connect(path), { busyTimeoutMs: 30 });
    const other = connect(path);
    other.exec('BEGIN IMMEDIATE');
    await expect(inbox.claim(event('a'), LEASE)).rejects.toThrow(/locked/);
    await expect(inbox.record([event('b')], { dueInMs: 0, origin: 'pull' })).rejects.toThrow(/locked/);
    other.exec('COMMIT');
    expect(await inbox.find('a')).toBeUndefined();
    expect((await inbox.claim(event('a'), LEASE)).state).toBe('claimed');
  });

  test('an inbox whose file is full rejects, keeps its events, and works once there is space', async () => {
    const db = connect(freshPath());
    const inbox = sqliteInbox(db);
    const page = Array.from({ length: 500 }, (_, index) => event(`evt_${index}`));
    const kept = await claimed(inbox, event('kept'));
    db.exec('PRAGMA max_page_count = 1');
    await expect(inbox.record(page, { dueInMs: 0, origin: 'pull' })).rejects.toThrow(/full/);
    expect((await inbox.count()).find(({ state }) => state === 'received')?.count).toBe(0);
    db.exec('PRAGMA max_page_count = 100000');
    expect(await inbox.complete(kept)).toBe(true);
    expect(new Set(await inbox.record(page, { dueInMs: 0, origin: 'pull' }))).toEqual(new Set(['new']));
  });

  test('a step during a transaction of the app on the same connection rejects', async () => {
    const db = connect(freshPath());
    const inbox = sqliteInbox(db);
    db.exec('BEGIN');
    await expect(inbox.claim(event('a'), LEASE)).rejects.toThrow(/transaction/);
    db.exec('ROLLBACK');
    expect((await inbox.claim(event('a'), LEASE)).state).toBe('claimed');
  });

  test('an event that cannot be encoded does not fail the other steps of the same turn', async () => {
    const inbox = sqliteInbox(connect(freshPath()));
    const deep: { inner?: object } = {};
    for (let level = deep, depth = 0; depth < 100_000; depth += 1) level = level.inner = {};
    const [good, bad] = await Promise.allSettled([
      inbox.claim(event('good'), LEASE),
      inbox.claim({ ...event('bad'), payload: { deep } }, LEASE),
    ]);
    expect(good).toMatchObject({ status: 'fulfilled', value: { state: 'claimed' } });
    expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'ERR_EVENT_MALFORMED' } });
  });
});

test('a history that is not JSON keeps neither that event nor others from running', async () => {
  const path = freshPath();
  const db = connect(path);
  const inbox = sqliteInbox(db);
  const [a, b] = [event('a'), event('b')];
  for (const each of [a, b]) await claimed(inbox, each, { leaseMs: 0 });
  db.exec(`UPDATE stablehooks_events SET history = '[{', last_error = 'edited' WHERE id = 'a'`);
  expect(await inbox.list({ limit: 10, error: 'x' })).toEqual([]);
  expect(await inbox.find('a')).toMatchObject({ lastError: 'edited', history: [], event: a });
  const taken = await inbox.takeDue({ limit: 10, visibilityTimeoutMs: 1_000, types: ['transfer.settled'] });
  expect(taken.map(({ id }) => id).sort()).toEqual(['a', 'b']);
  expect((await inbox.find('a'))?.history).toMatchObject([{ attempt: 1, result: 'lapsed' }]);
});
