/** Connections that carry nothing any more, as after a firewall has dropped them: the inbox frees their places in the pool. */
import { connect } from 'node:net';
import { Redis } from 'ioredis';
import { createPool } from 'mysql2/promise';
import pg from 'pg';
import postgres from 'postgres';
import { createReceiver, type Inbox } from 'stablehooks';
import { migrateMysql, mysqlInbox } from 'stablehooks/inboxes/mysql';
import { fromPostgresJs, postgresInbox } from 'stablehooks/inboxes/postgres';
import { fromIoredis, redisInbox } from 'stablehooks/inboxes/redis';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startMariadb } from '../services/mariadb.js';
import { ownPostgres } from '../services/own-postgres.js';
import { startProxy } from '../services/proxy.js';
import { startRedis } from '../services/redis.js';
import type { Service } from '../services/service.js';
import { describeWithMariadb } from '../services/with-mariadb.js';
import { describeWithRedis } from '../services/with-redis.js';
import { silent, someEvent } from './claimed.js';

const own = ownPostgres();

/** The limit of the inbox is 30 s. Here it is over after one. */
const runtime = {
  setTimeout: (callback: () => void, ms: number) => setTimeout(callback, ms / 30),
  clearTimeout: (timer: unknown) => clearTimeout(timer as NodeJS.Timeout),
};

const CONNECTIONS = 3;

/** Handles events, silences all connections, and expects that events are handled again. */
async function expectHealed<Tx>(inbox: Inbox<Tx>, proxy: Awaited<ReturnType<typeof startProxy>>) {
  const receiver = createReceiver({
    ...{ secret: 'x', logger: silent, inboxTimeoutMs: 400 },
    inbox: inbox as Inbox<undefined>,
    handlers: { 'transfer.settled': () => undefined },
  });
  const kindsOf = async (count: number) => {
    const handling = Array.from({ length: count }, () => receiver.handle(someEvent(), 'push'));
    return new Set((await Promise.all(handling)).map(({ kind }) => kind));
  };
  const heals = () =>
    vi.waitFor(async () => expect(await kindsOf(CONNECTIONS)).toEqual(new Set(['handled'])), {
      timeout: 60_000,
      interval: 100,
    });
  await heals();
  for (let round = 1; round <= 2; round++) {
    proxy.silence();
    expect(await kindsOf(1)).toEqual(new Set(['unavailable']));
    await heals();
  }
}

async function proxied(url: string, port: number) {
  const proxy = await startProxy(port);
  const other = new URL(url);
  other.port = String(proxy.port);
  return { proxy, url: other.href };
}

test.each([false, true])(
  'a pool of pg without query_timeout goes on after its connections fell silent (transactional: %s)',
  async (transactional) => {
    const { proxy, url } = await proxied(own.server.url, own.server.port);
    const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS }).on('error', () => undefined);
    onTestFinished(() => void pool.end());
    const inbox = transactional
      ? postgresInbox(pool, { runtime, transactional: true })
      : postgresInbox(pool, { runtime });
    await expectHealed(inbox as ReturnType<typeof postgresInbox>, proxy);
  },
);

test('postgres.js goes on with the socket that the documentation of fromPostgresJs shows', async () => {
  const { proxy, url } = await proxied(own.server.url, own.server.port);
  const socket = ({ host, port }: { readonly host: string[]; readonly port: number[] }) => {
    const opened = connect(port[0] ?? 0, host[0]);
    return opened.setTimeout(1_000, () => opened.destroy());
  };
  // The types of postgres.js do not have the option.
  const sql = postgres(url, { max: CONNECTIONS, ...{ socket } });
  onTestFinished(() => sql.end({ timeout: 0 }));
  await expectHealed(postgresInbox(fromPostgresJs(sql), { transactional: true }), proxy);
});

describeWithMariadb('MySQL', () => {
  let server: Service;
  beforeAll(async () => {
    server = await startMariadb();
  });
  afterAll(() => server.stop());

  test.each([false, true])(
    'a pool of mysql2 goes on after its connections fell silent (transactional: %s)',
    async (transactional) => {
      const { proxy, url } = await proxied(server.url, server.port);
      const pool = createPool({ uri: url, connectionLimit: CONNECTIONS });
      onTestFinished(() => void pool.end().catch(() => undefined));
      await migrateMysql(pool);
      const inbox = transactional
        ? mysqlInbox(pool, { runtime, transactional: true })
        : mysqlInbox(pool, { runtime });
      await expectHealed(inbox as ReturnType<typeof mysqlInbox>, proxy);
    },
  );
});

describeWithRedis('Redis', () => {
  test('a client of ioredis with the options of docs/inboxes.md connects again and goes on after its connection fell silent', async () => {
    const server = await startRedis();
    onTestFinished(() => server.stop());
    const { proxy, url } = await proxied(server.url, server.port);
    const redis = new Redis(url, { maxRetriesPerRequest: 1 }).on('error', () => undefined);
    onTestFinished(() => redis.disconnect());
    await expectHealed(redisInbox(fromIoredis(redis), { runtime }), proxy);
  });
});
