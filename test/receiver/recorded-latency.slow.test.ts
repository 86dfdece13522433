/** Under `acknowledge: 'recorded'` no answer waits for a handler: all of them are answered while none has ended. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import pg from 'pg';
import { createReceiver, type Inbox, type InboxOperations, type UnknownEvent } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startPostgres } from '../services/postgres.js';
import { deferred, secret } from './delivery.js';

const DELIVERIES = 500;
const CONNECTIONS = 5;

function openFile() {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-recorded-'));
  const db = new Database(join(folder, 'inbox.db'));
  onTestFinished(() => {
    db.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return sqliteInbox(db);
}

async function openPool(limits: pg.PoolConfig = {}): Promise<pg.Pool> {
  const server = await startPostgres();
  const pool = new pg.Pool({ connectionString: server.url, max: CONNECTIONS, ...limits });
  pool.on('error', () => undefined);
  onTestFinished(async () => {
    await pool.end();
    await server.stop();
  });
  await migratePostgres(pool);
  return pool;
}

/** Serves a receiver whose handlers wait until they may end. */
async function serve<Tx>(inbox: Inbox<Tx>, limits: { readonly maxConcurrency?: number }) {
  const mayEnd = deferred();
  const started: string[] = [];
  const handled: string[] = [];
  const receiver = createReceiver({
    secret,
    inbox,
    ...limits,
    acknowledge: 'recorded',
    // Longer than the deliveries take on a busy machine.
    handlerTimeoutMs: 600_000,
    leaseMs: 660_000,
    logger: { warn: () => undefined, error: () => undefined },
    handlers: {
      'transfer.settled': async ({ id }) => {
        started.push(id);
        await mayEnd.promise;
        handled.push(id);
      },
    },
  });
  const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  async function deliver(event: UnknownEvent): Promise<number> {
    const response = await fetch(`http://127.0.0.1:${port}/hooks`, await signedRequest(event, { secret }));
    await response.arrayBuffer();
    return response.status;
  }
  async function close() {
    mayEnd.resolve();
    server.closeAllConnections();
    server.close();
    await receiver.close();
  }
  return { deliver, close, started, handled, letEnd: mayEnd.resolve };
}

/** Delivers while every handler waits; lets the handlers end after the last answer. */
async function deliverWhileHandlersWait<Tx>(
  inbox: Inbox<Tx> & InboxOperations,
  limits: { readonly maxConcurrency?: number },
) {
  const { deliver, close, handled, letEnd } = await serve(inbox, limits);
  try {
    const events = Array.from({ length: DELIVERIES }, () => exampleEvent('transfer.settled'));
    const statuses = await Promise.all(events.map(deliver));
    expect(new Set(statuses)).toEqual(new Set([202]));
    expect(handled).toEqual([]);
    const stored = await inbox.count();
    const open = stored.filter(({ state }) => state === 'received' || state === 'leased');
    expect(open.reduce((sum, { count }) => sum + count, 0)).toBe(DELIVERIES);
    letEnd();
    await vi.waitFor(() => expect(handled.sort()).toEqual(events.map(({ id }) => id).sort()), {
      timeout: 60_000,
      interval: 50,
    });
  } finally {
    await close();
  }
}

test('all deliveries are answered 202 over an SQLite file while every handler waits', () =>
  deliverWhileHandlersWait(openFile(), {}));

test('all deliveries are answered 202 over Postgres while every handler waits', async () =>
  deliverWhileHandlersWait(postgresInbox(await openPool()), {}));

test('all deliveries are answered 202 over Postgres while ten handlers wait and no other may run', async () =>
  deliverWhileHandlersWait(postgresInbox(await openPool()), { maxConcurrency: 10 }));

// Each handler that waits holds a connection; the one that is left records what arrives.
test('all deliveries are answered 202 while handlers in transactions hold all connections but one', async () =>
  deliverWhileHandlersWait(postgresInbox(await openPool(), { transactional: true }), {
    maxConcurrency: CONNECTIONS - 1,
  }));

test('a delivery is answered 503 if handlers in transactions hold every connection until the pool gives up', async () => {
  const pool = await openPool({ connectionTimeoutMillis: 5_000 });
  const inbox = postgresInbox(pool, { transactional: true });
  const { deliver, close, started } = await serve(inbox, { maxConcurrency: CONNECTIONS });
  try {
    for (let index = 0; index < CONNECTIONS; index++) {
      expect(await deliver(exampleEvent('transfer.settled'))).toBe(202);
      await vi.waitFor(() => expect(started.length).toBe(index + 1), { timeout: 60_000, interval: 5 });
    }
    expect(await deliver(exampleEvent('transfer.settled'))).toBe(503);
  } finally {
    await close();
  }
});
