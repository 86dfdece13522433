/** How the Postgres inbox fails, and that it recovers without a restart. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startPostgres } from '../services/postgres.js';
import { startProxy } from '../services/proxy.js';
import type { Service } from '../services/service.js';

let server: Service;
let admin: pg.Pool;
beforeAll(async () => {
  server = await startPostgres();
  admin = new pg.Pool({ connectionString: server.url });
  await migratePostgres(admin);
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

const someEvent = () => ({ ...exampleEvent('transfer.settled'), id: `evt_${randomUUID()}` });

/** A pool of `pg` that the test ends. */
function openPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool(config).on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  // A silent connection never ends by itself.
  onTestFinished(() => void pool.end());
  return pool;
}

test.each([false, true])(
  'after a server that was silent, deliveries, start() and the poller go on (transactional: %s)',
  async (transactional) => {
    const proxy = await startProxy(server.port);
    const url = new URL(server.url);
    url.port = String(proxy.port);
    // As docs/inboxes.md says: without it, silent connections keep their places in the pool.
    const pool = openPool({ connectionString: url.href, max: 8, query_timeout: 500 });
    const lines: string[] = [];
    const log = (line: string) => void lines.push(line);
    const inbox = transactional ? postgresInbox(pool, { transactional }) : postgresInbox(pool);
    const ran: string[] = [];
    const receiver = createReceiver({
      secret: 'x',
      inbox: inbox as ReturnType<typeof postgresInbox>,
      inboxTimeoutMs: 200,
      handlers: { 'transfer.settled': ({ id }) => void ran.push(id) },
      logger: { warn: log, error: log },
    });
    onTestFinished(() => receiver.close());
    const list = async () => ({ events: [], problems: [], size: 0 });
    const client = { events: { listWithProblems: list } };
    const poller = createPoller({ client, receiver, intervalMs: 20, logger: { warn: log, error: log } });
    onTestFinished(() => poller.stop());
    receiver.start({ intervalMs: 20 });
    poller.start();
    const first = someEvent();
    expect((await receiver.handle(first, 'push')).kind).toBe('handled');

    // So that every loop has a silent connection.
    await Promise.all(Array.from({ length: 8 }, () => pool.query('SELECT pg_sleep(0.01)')));
    proxy.silence();
    const says = (pattern: RegExp) =>
      vi.waitFor(() => expect(lines.join('\n')).toMatch(pattern), { timeout: 20_000 });
    await says(/due events cannot be read[^\n]*did not answer within 200 ms/);
    await says(/the poll failed. ERR_INBOX_FAILED/);
    await says(/due events can be read from the inbox again/);
    await says(/polls succeed again/);
    await vi.waitFor(async () => expect((await receiver.handle(someEvent(), 'push')).kind).toBe('handled'));
    const after = someEvent();
    await inbox.record([after], { dueInMs: 0, origin: 'pull' });
    await vi.waitFor(() => expect(ran).toContain(after.id), { timeout: 20_000 });
  },
);
