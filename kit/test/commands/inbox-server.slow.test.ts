import { Redis } from 'ioredis';
import pg from 'pg';
import { createReceiver, PermanentError } from 'stablehooks';
import type { Inbox } from 'stablehooks/conformance';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { exampleEvent } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { startPostgres } from '../../../test/services/postgres.js';
import { startRedis } from '../../../test/services/redis.js';
import { describeWithRedis } from '../../../test/services/with-redis.js';
import { run, SECRET } from '../command.js';
import { findClosedUrl } from '../http-server.js';
import { SILENT, startEndpoint } from '../service.js';

/** Leaves one event dead in the inbox, and answers its id. */
async function leaveDead(inbox: Inbox): Promise<string> {
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
  await receiver.accept(event, 'push');
  return event.id;
}

/** Runs the dead event again, by the place that the variable holds. */
async function expectRedriven(id: string, url: string): Promise<void> {
  await using endpoint = await startEndpoint();
  const env = { INBOX_URL: url };
  const list = await run(['inbox', 'list', '--inbox', 'env:INBOX_URL', '--state', 'dead'], { env });
  expect(list.stdout).toContain(id);
  const redrive = await run(
    ['inbox', 'redrive', '--inbox', 'env:INBOX_URL', '--all-dead', '--to', endpoint.url],
    { env },
  );
  expect(endpoint.handled()).toEqual([id]);
  expect(redrive.exitCode).toBe(0);
  const stats = await run(['inbox', 'stats', '--inbox', 'env:INBOX_URL'], { env });
  expect(stats.stdout).toMatch(/\ndone +1 /);
}

test('inbox reads and redrives an inbox in Postgres', async () => {
  const postgres = await startPostgres();
  try {
    const noTables = await run(['inbox', 'stats', '--inbox', 'env:INBOX_URL'], {
      env: { INBOX_URL: postgres.url },
    });
    expect(noTables.stderr).toMatch(/^stablehooks: This database has no inbox: run the migrations[^\n]*\n$/);
    expect(noTables.exitCode).toBe(2);

    const pool = new pg.Pool({ connectionString: postgres.url });
    await migratePostgres(pool);
    const id = await leaveDead(postgresInbox(pool));
    await pool.end();
    await expectRedriven(id, postgres.url);
  } finally {
    await postgres.stop();
  }
});

describeWithRedis('a Redis', () => {
  test('inbox reads and redrives an inbox in Redis', async () => {
    const server = await startRedis();
    try {
      const redis = new Redis(server.url);
      const id = await leaveDead(redisInbox(fromIoredis(redis)));
      await redis.quit();
      await expectRedriven(id, server.url);
    } finally {
      await server.stop();
    }
  });
});

test.for(['postgres', 'redis'])('an inbox in %s that cannot be reached is exit 3', async (scheme) => {
  const url = (await findClosedUrl()).replace('http', scheme);
  const { stderr, exitCode } = await run(['inbox', 'stats', '--inbox', url]);
  expect(stderr).toMatch(/^stablehooks: 127\.0\.0\.1:\d+: Nothing listens there[^\n]*\(ECONNREFUSED\)\n$/);
  expect(exitCode).toBe(3);
});

test.for([
  'postgres://me:hunter2@127.0.0.1/db',
  'postgres://127.0.0.1/db?user=me&password=hunter2',
  'redis://127.0.0.1/?Redis-Password=hunter2',
])('the URL %s with a password is refused, because the process list would show it', async (url) => {
  const { stderr, exitCode } = await run(['inbox', 'stats', '--inbox', url]);
  expect(stderr).toMatch(
    /A password in the URL shows in the process list: put the URL into an environment variable/,
  );
  expect(stderr).not.toContain('hunter2');
  expect(exitCode).toBe(2);
});
