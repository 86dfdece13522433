/** A ledger in Postgres with one entry per event, exactly once: `DATABASE_URL=postgres://… STABLEHOOKS_SECRET=whsec_test npx tsx examples/exactly-once.ts`. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { createReceiver } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';

const pool = new pg.Pool({
  connectionString: process.env['DATABASE_URL'],
  max: 20,
  // A full pool, a lost server or a slow statement is answered 503, which asks for a retry.
  connectionTimeoutMillis: 5_000,
  query_timeout: 10_000,
});
// Without a listener, an idle connection that breaks ends the process.
pool.on('error', (error) => console.error(error.message));

await migratePostgres(pool);
await pool.query('CREATE TABLE IF NOT EXISTS ledger (event_id text PRIMARY KEY, payload json NOT NULL)');

const receiver = createReceiver({
  secret: process.env['STABLEHOOKS_SECRET'] ?? '',
  inbox: postgresInbox(pool, { transactional: true }),
  handlers: {
    // The entry and the event's `done` commit together or not at all.
    'accept.confirmed': async (event, { tx }) => {
      await tx.query('INSERT INTO ledger VALUES ($1, $2)', [event.id, JSON.stringify(event.payload)]);
    },
  },
});

// Runs failed events again, and events whose process died. Any number of processes can do this.
receiver.start();

const server = createServer(toNodeHandler(receiver)).listen(Number(process.env['PORT'] ?? 3000), () => {
  const { port } = server.address() as AddressInfo;
  console.log(`Listening on http://localhost:${port}/`);
});
