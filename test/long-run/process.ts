/** One Express process of the long run: a receiver, its redrive and a poller. */
import type { AddressInfo } from 'node:net';
import express from 'express';
import pg from 'pg';
import { createReceiver, EVENT_TYPES } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toExpressHandler } from 'stablehooks/express';
import { type PgTx, postgresInbox } from 'stablehooks/inboxes/postgres';

export interface ProcessSettings {
  readonly databaseUrl: string;
  readonly secret: string;
  readonly service: { readonly url: string; readonly token: string; readonly since: string };
}

/** What a process sends: where it listens, and its memory. */
export interface Report {
  readonly port?: number;
  /** Bytes, after a garbage collection. */
  readonly memory?: { readonly heap: number; readonly rss: number };
}

const { databaseUrl, secret, service } = JSON.parse(process.argv[2] ?? '') as ProcessSettings;
const send = (report: Report) => void process.send?.(report);
const ignore = () => undefined;
const logger = { warn: ignore, error: ignore };

const pool = new pg.Pool({ connectionString: databaseUrl, max: 8, connectionTimeoutMillis: 2_000 });
pool.on('error', ignore);
const client = createClient({ baseUrl: service.url, token: service.token });

const receiver = createReceiver<PgTx>({
  ...{ secret, logger, leaseMs: 5_000, handlerTimeoutMs: 4_000, maxAttempts: 1_000 },
  inbox: postgresInbox(pool, { transactional: true }),
  handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, book])),
});
const poller = createPoller({
  ...{ client, receiver, logger, onGap: ignore, since: new Date(service.since) },
  ...{ lagMs: 2_000, intervalMs: 2_000, leaseMs: 10_000 },
});

async function book(
  { id }: { readonly id: string },
  { tx, attempt }: { readonly tx: PgTx; readonly attempt: number },
) {
  // One in ten fails at first, so something is always due.
  if (attempt === 1 && Number.parseInt(id.slice(-4), 16) % 10 === 0) throw new Error('planted');
  await tx.query('INSERT INTO ledger (event_id) VALUES ($1)', [id]);
}

receiver.start({ intervalMs: 1_000 });
poller.start();
process.on('disconnect', () => process.exit());
setInterval(() => {
  globalThis.gc?.();
  const { heapUsed: heap, rss } = process.memoryUsage();
  send({ memory: { heap, rss } });
}, 5_000);

const app = express().post('/', toExpressHandler(receiver));
const server = app.listen(0, '127.0.0.1', () => send({ port: (server.address() as AddressInfo).port }));
