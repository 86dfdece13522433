import { Redis } from 'ioredis';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import { createReceiver, type Inbox, type InboxOperations, PermanentError } from 'stablehooks';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { startMariadb } from '../../../test/services/mariadb.js';
import { startPostgres } from '../../../test/services/postgres.js';
import { startRedis } from '../../../test/services/redis.js';
import { describeWithMariadb } from '../../../test/services/with-mariadb.js';
import { describeWithRedis } from '../../../test/services/with-redis.js';
import { makeFolder, run, SECRET, useOnly } from '../command.js';
import { findClosedUrl, listenSilently, serve } from '../http-server.js';
import { complete } from '../inbox-states.js';
import { fire, SILENT, startEndpoint, startService } from '../service.js';

/** Leaves one event of the list dead in an inbox, and answers its id. */
async function leaveDead(inbox: Inbox & InboxOperations): Promise<string> {
  const giveUp = () => {
    throw new PermanentError('the account was closed');
  };
  const receiver = createReceiver({
    secret: SECRET,
    inbox,
    logger: SILENT,
    handlers: { 'redeem.failed': giveUp },
  });
  const event = exampleEvent('redeem.failed');
  await receiver.accept(event, 'pull');
  return event.id;
}

/** The namespace of `catch-up` beside an app's, where what any endpoint answers counts. */
const OWN = 'stablehooks_catch_up';

/** Runs the dead event again, by the place that the variable holds. */
async function expectRedriven(id: string, url: string, namespace = OWN): Promise<void> {
  const flags = ['--namespace', namespace];
  await using endpoint = await startEndpoint();
  const command = (...words: readonly string[]) =>
    run(['inbox', ...words, '--inbox', 'env:INBOX_URL', ...flags], { env: { INBOX_URL: url } });
  expect((await command('list', '--state', 'dead')).stdout).toContain(id);
  const redrive = await command('run', '--state', 'dead', '--to', endpoint.url);
  expect(endpoint.handled()).toEqual([id]);
  expect(redrive.exitCode).toBe(0);
  expect((await command('stats')).stdout).toMatch(/\ndone +1\n/);
}

/** Catches up in a namespace of its own, which it creates, and leaves that of the app alone. */
async function expectCaughtUp(url: string): Promise<void> {
  await using service = await startService();
  await using endpoint = await startEndpoint();
  const ids = fire(service.sandbox, 3);
  const env = { ...service.env, INBOX_URL: url };
  const catchUp = ['catch-up', '--to', endpoint.url, '--since', '1h', '--namespace', 'fresh'];
  const first = await run([...catchUp, '--inbox', 'env:INBOX_URL'], { env });
  expect(first.stdout).toMatch(/\ndelivered +3 now, 0 before, 0 failed\n/);
  expect(endpoint.handled().toSorted()).toEqual(ids.toSorted());
  const stats = (namespace: string) =>
    run(['inbox', 'stats', '--inbox', 'env:INBOX_URL', '--namespace', namespace], { env });
  expect((await stats('fresh_catch_up')).stdout).toMatch(/\ndone +3\n/);
  expect((await stats('fresh')).exitCode).toBe(2);
}

test.concurrent('inbox reads and redrives an inbox in Postgres', async () => {
  await using postgres = await startPostgres();
  const noTables = await run(['inbox', 'stats', '--inbox', 'env:INBOX_URL'], {
    env: { INBOX_URL: postgres.url },
  });
  expect(noTables.stderr).toMatch(/has no inbox in this schema\. .*--namespace/);
  expect(noTables.exitCode).toBe(2);

  const pool = new pg.Pool({ connectionString: postgres.url });
  for (const schema of [OWN, 'tenant_b_catch_up']) {
    await migratePostgres(pool, { schema });
    await expectRedriven(await leaveDead(postgresInbox(pool, { schema })), postgres.url, schema);
  }
  await pool.end();
  await expectCaughtUp(postgres.url);
  const wrong = await run(['inbox', 'stats', '--inbox', 'env:INBOX_URL', '--namespace', 'tenant_c'], {
    env: { INBOX_URL: postgres.url },
  });
  expect(wrong.stderr).toMatch(/^stablehooks: This database has no inbox in this schema\. /);
  expect(wrong.exitCode).toBe(2);
});

test.concurrent.for(['postgres', 'redis'])(
  'an inbox in %s that cannot be reached is exit 3',
  async (scheme) => {
    const url = (await findClosedUrl()).replace('http', scheme);
    const { stderr, exitCode } = await run(['inbox', 'stats', '--inbox', url]);
    expect(stderr).toMatch(
      /^stablehooks: 127\.0\.0\.1:\d+: Nothing is listening there[^\n]*\(ECONNREFUSED\)\n$/,
    );
    expect(exitCode).toBe(3);
  },
);

test.concurrent.for(['postgres', 'redis with ioredis', 'redis with redis'])(
  'a server that does not answer is exit 3 within the time for a connection: %s',
  async (kind) => {
    await using silent = await listenSilently();
    const [scheme = '', , driver = 'pg'] = kind.split(' ');
    await using folder = await makeFolder();
    await useOnly(driver, folder);
    const url = silent.url.replace('tcp', scheme);
    const { stderr, exitCode } = await run(['gaps', 'list', '--inbox', url], { cwd: folder.path });
    expect(stderr).toMatch(/^stablehooks: [^\n]*(?:timeout|in time)[^\n]*\n$/);
    expect(exitCode).toBe(3);
  },
);

/** Runs commands that fail in the inbox, and answers how each ended. */
async function runFailing(url: string, ...commands: readonly (readonly string[])[]) {
  const ended = [];
  for (const words of commands) {
    ended.push(await run([...words, '--inbox', 'env:INBOX_URL'], { env: { INBOX_URL: url } }));
  }
  return ended.map(({ stderr, exitCode }) => ({ stderr, exitCode }));
}

/** How a command ends when the inbox fails: one line that does not report a defect of the tool. */
const failed = (exitCode: number, says: RegExp) => ({
  exitCode,
  stderr: expect.stringMatching(new RegExp(`^stablehooks: ${says.source}[^\\n]*\\n$`)),
});

test.concurrent('every error of Postgres is exit 3 with its message and code, and a refused user or password is exit 2', async () => {
  const postgres = await startPostgres();
  const pool = new pg.Pool({ connectionString: postgres.url });
  try {
    await migratePostgres(pool);
    const id = await leaveDead(postgresInbox(pool));
    const requeue = ['inbox', 'requeue', id];
    const withOption = (option: string) => `${postgres.url}?options=${encodeURIComponent(`-c ${option}`)}`;
    expect(await runFailing(withOption('default_transaction_read_only=on'), requeue)).toEqual([
      failed(3, /The inbox failed: cannot execute UPDATE in a read-only transaction \(25006\)\./),
    ]);

    const client = await pool.connect();
    await client.query('BEGIN; LOCK TABLE stablehooks.events');
    expect(await runFailing(withOption('statement_timeout=200'), requeue, ['inbox', 'stats'])).toEqual(
      Array(2).fill(failed(3, /The inbox failed: canceling statement due to statement timeout \(57014\)\./)),
    );
    await client.query('ROLLBACK');
    client.release();

    await pool.query("CREATE ROLE reader LOGIN PASSWORD 'reads'");
    const asReader = postgres.url.replace(/\/\/[^@]*@/, '//reader:reads@');
    // The packages wrap what the inbox rejects with.
    expect(await runFailing(asReader, ['inbox', 'stats'], ['gaps', 'list'])).toEqual(
      Array(2).fill(failed(3, /The inbox failed: permission denied for schema stablehooks \(42501\)\./)),
    );
    await pool.query('ALTER ROLE reader NOLOGIN');
    expect(await runFailing(asReader, ['gaps', 'list'])).toEqual([
      failed(2, /The inbox rejected the user name or password: role "reader" is not permitted to log in /),
    ]);
    const withoutPassword = postgres.url.replace(/:[^:@/]*@/, '@');
    expect(await runFailing(withoutPassword, ['gaps', 'list'])).toMatchObject([{ exitCode: 2 }]);
  } finally {
    await pool.end();
    await postgres.stop();
  }
});

describeWithMariadb('a MariaDB', () => {
  test.concurrent('inbox reads and redrives an inbox in MySQL', async () => {
    await using server = await startMariadb();
    const stats = (url: string, ...flags: readonly string[]) =>
      run(['inbox', 'stats', '--inbox', 'env:INBOX_URL', ...flags], { env: { INBOX_URL: url } });
    const missing = /has no inbox with this prefix\. .*--namespace/;
    expect(await stats(server.url)).toMatchObject({ stderr: expect.stringMatching(missing), exitCode: 2 });

    const pool = createPool(server.url);
    for (const prefix of [OWN, 'tenant_b_catch_up']) {
      await migrateMysql(pool, { prefix });
      await expectRedriven(await leaveDead(mysqlInbox(pool, { prefix })), server.url, prefix);
    }
    await pool.end();
    await expectCaughtUp(server.url);
    expect(await stats(server.url, '--namespace', 'a-b')).toMatchObject({
      stderr: expect.stringMatching(/`prefix` must be /),
      exitCode: 2,
    });
    expect(await stats(server.url.replace('root', 'root:hunter2'))).toMatchObject({
      stderr: expect.stringMatching(/rejected the user name or password: (?!.*hunter2)/),
      exitCode: 2,
    });
    expect(await stats(server.url.replace(/mysql$/, 'nowhere'))).toMatchObject({
      stderr: expect.stringMatching(/^stablehooks: MySQL has no database with that name/),
      exitCode: 2,
    });
  });
});

describeWithRedis('a Redis', () => {
  test.concurrent('inbox reads and redrives an inbox in Redis', async () => {
    await using server = await startRedis();
    const redis = new Redis(server.url);
    const id = await leaveDead(redisInbox(fromIoredis(redis), { prefix: OWN }));
    await redis.quit();
    await expectRedriven(id, server.url);
    await expectCaughtUp(server.url);
  });

  test.concurrent('inbox reads an inbox with a prefix of its own, and refuses a Redis without an inbox there', async () => {
    await using server = await startRedis();
    const redis = new Redis(server.url);
    const id = await leaveDead(redisInbox(fromIoredis(redis), { prefix: 'payments_catch_up' }));
    await redis.quit();
    const env = { INBOX_URL: server.url, OTHER_DATABASE: `${server.url}/1` };
    const refused = (place: string, prefix: string) => ({
      exitCode: 2,
      stdout: '',
      stderr: expect.stringContaining(`${place}: this Redis has no inbox with the prefix ${prefix}`),
    });
    const place = 'env:INBOX_URL';
    const stats = await run(['inbox', 'stats', '--inbox', place], { env });
    expect(stats).toMatchObject(refused(place, 'stablehooks'));
    const other = ['--inbox', 'env:OTHER_DATABASE', '--namespace', 'payments'];
    expect(await run(['inbox', 'requeue', '--state', 'dead', ...other], { env })).toMatchObject(
      refused('env:OTHER_DATABASE', 'payments'),
    );
    const braces = await run(['inbox', 'stats', '--inbox', place, '--namespace', '{payments}'], { env });
    expect(braces.stderr).toMatch(/`prefix` must be /);
    expect(braces.exitCode).toBe(2);
    await expectRedriven(id, server.url, 'payments_catch_up');
  });

  test.concurrent.for(['ioredis', 'redis'])(
    'a database that a Redis does not have is refused, and nothing is done in another one: %s',
    async (driver) => {
      await using server = await startRedis();
      await using folder = await makeFolder();
      await useOnly(driver, folder);
      const redis = new Redis(server.url);
      const inbox = redisInbox(fromIoredis(redis));
      const event = exampleEvent('redeem.failed');
      await complete(inbox, event);
      const prune = (database: string) =>
        run(['inbox', 'prune', '--older-than', '0', '--yes', '--inbox', 'env:INBOX_URL'], {
          env: { INBOX_URL: `${server.url}${database}` },
          cwd: folder.path,
        });
      for (const [database, says] of [
        ['/99', 'this Redis has no database 99'],
        ['/prod', 'write the Redis database as a number'],
        ['?db=1', 'write the Redis database as a number'],
      ] as const) {
        const { stdout, stderr, exitCode } = await prune(database);
        expect([stdout, exitCode]).toEqual(['', 2]);
        expect(stderr).toContain(says);
      }
      expect((await prune('/1')).stderr).toMatch(/this Redis has no inbox with the prefix stablehooks/);
      expect(await inbox.find(event.id)).toMatchObject({ event: { id: event.id } });
      expect((await prune('/0')).exitCode).toBe(0);
      await redis.quit();
    },
  );

  test.concurrent('the ordering key is printed, and inbox run says what runs an event that waits for another one of its key', async () => {
    const server = await startRedis();
    const redis = new Redis(server.url);
    try {
      const inbox = redisInbox(fromIoredis(redis));
      const claim = async () => {
        const event = exampleEvent('redeem.failed');
        const claimed = await inbox.claim(event, { leaseMs: 3_600_000, origin: 'pull', key: 'redeem_7' });
        if (claimed.state !== 'claimed') throw new Error(`The event is ${claimed.state}.`);
        return claimed.lease;
      };
      const dead = await claim();
      const { id } = dead;
      await inbox.fail(dead, { retryAfterMs: null, error: 'the account was closed' });
      const runs = await claim();
      const command = (...words: readonly string[]) =>
        run(['inbox', ...words, '--inbox', 'env:INBOX_URL'], { env: { INBOX_URL: server.url } });
      expect(JSON.parse((await command('show', id)).stdout)).toMatchObject({ id, key: 'redeem_7' });
      const list = await command('list', '--state', 'dead', '--json');
      expect(JSON.parse(list.stdout)).toMatchObject({ id, key: 'redeem_7' });

      const receiver = createReceiver({
        secret: SECRET,
        inbox,
        logger: SILENT,
        orderingKey: () => 'redeem_7',
        handlers: { 'redeem.failed': () => undefined },
      });
      await using app = await serve(toNodeHandler(receiver));
      const redrive = await command('run', id, '--to', app.url);
      expect(redrive.stderr).toContain('1 of 1 sent: 1 × 503 ERR_KEY_BUSY');
      expect(redrive.stderr).toContain('Waiting for a running event with the same ordering key');
      expect(redrive.stderr).not.toContain('still dead or failed');
      expect(redrive.exitCode).toBe(1);
      expect(await inbox.find(id)).toMatchObject({ state: 'received', key: 'redeem_7', attempts: 0 });
      await inbox.complete(runs);
      expect(await receiver.redrive()).toMatchObject({ handled: 1 });
    } finally {
      await redis.quit();
      await server.stop();
    }
  });

  test.concurrent('every error of Redis is exit 3 with its message, and a refused password is exit 2', async () => {
    const server = await startRedis(['--requirepass', 'secret']);
    const redis = new Redis(server.url, { password: 'secret' });
    try {
      const id = await leaveDead(redisInbox(fromIoredis(redis)));
      const requeue = ['inbox', 'requeue', id];
      const url = server.url.replace('//', '//:secret@');
      await redis.replicaof('127.0.0.1', 1);
      expect(await runFailing(url, requeue)).toEqual([
        failed(3, /The inbox failed: READONLY You can't write against a read only replica/),
      ]);
      for (const wrong of [server.url, server.url.replace('//', '//:wrong@')]) {
        expect(await runFailing(wrong, requeue, ['gaps', 'list'])).toEqual(
          Array(2).fill(failed(2, /The inbox rejected the user name or password: (?:NOAUTH|WRONGPASS) /)),
        );
      }
    } finally {
      redis.disconnect();
      await server.stop();
    }
  });

  test.concurrent.for(['ioredis', 'redis'])(
    'a Redis that accepts no more connections is exit 3, and no database that is missing: %s',
    async (driver) => {
      const server = await startRedis();
      const redis = new Redis(server.url);
      await using folder = await makeFolder();
      await useOnly(driver, folder);
      try {
        await redis.config('SET', 'maxclients', 1);
        for (const database of ['', '/1']) {
          const env = { INBOX_URL: `${server.url}${database}` };
          const { stderr, exitCode } = await run(['gaps', 'list', '--inbox', 'env:INBOX_URL'], {
            env,
            cwd: folder.path,
          });
          expect(stderr).not.toContain('has no database');
          expect(exitCode).toBe(3);
        }
      } finally {
        redis.disconnect();
        await server.stop();
      }
    },
  );
});
