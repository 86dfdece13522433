/**
 * A server that answers once an event is stored: a program of its own, over an inbox that others share.
 *
 * `recorded-server.ts <store> <address> <handlers>`
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'libsql';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';
import { SECRET } from './secret.js';
import { CONNECTIONS } from './stores.js';

/** What runs after the answer. */
export type HandlersName = keyof typeof HANDLERS;

const HANDLERS = {
  /** The event is recorded and enqueued nowhere. */
  none: { handler: async () => undefined, queue: { enqueue: async () => undefined } },
  'at once': { handler: async () => undefined },
  '30 s': { handler: () => pause(30_000) },
} as const;

const [, , store, address = '', handlers = ''] = process.argv;
const { handler, ...how } = HANDLERS[handlers as HandlersName];
const receiver = createReceiver({
  secret: SECRET,
  inbox:
    store === 'SQLite'
      ? sqliteInbox(new Database(address))
      : postgresInbox(new pg.Pool({ connectionString: address, max: CONNECTIONS })),
  ...('queue' in how ? { queue: how.queue } : { acknowledge: 'recorded' as const }),
  handlers: { 'transfer.settled': handler },
  handlerTimeoutMs: 60_000,
  leaseMs: 120_000,
});
const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
