/** Ordering keys over several processes. */
import { randomUUID } from 'node:crypto';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../child.js';
import { startPostgres } from '../services/postgres.js';
import type { Service } from '../services/service.js';
import type { RunnerOptions } from './postgres-keys-process.js';

let server: Service;
let pool: pg.Pool;
beforeAll(async () => {
  server = await startPostgres();
  pool = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
});
afterAll(async () => {
  await pool.end();
  await server.stop();
});

const ACCOUNTS = 4;
const EVENTS = 120;

/** Runs the events of a few accounts in 5 processes; returns what each wrote, in its order. */
async function runInProcesses(schema: string, keyed: boolean) {
  await migratePostgres(pool, { schema });
  await pool.query(`CREATE TABLE ${schema}.running (account text PRIMARY KEY)`);
  await pool.query(`CREATE TABLE ${schema}.ledger (number serial, id text, overlapped boolean)`);
  const events = Array.from({ length: EVENTS }, (_, index) => ({
    ...exampleEvent('transfer.settled'),
    id: `evt_${randomUUID()}`,
    created_at: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString(),
    payload: { account: `account_${index % ACCOUNTS}` },
  }));
  // Received in another order than created.
  const received = [...events].sort((a, b) => (a.id < b.id ? -1 : 1));
  const keys = received.map(({ payload }) => payload.account);
  await postgresInbox(pool, { schema }).record(received, {
    dueInMs: 0,
    origin: 'pull',
    ...(keyed && { keys }),
  });
  const program = fileURLToPath(new URL('./postgres-keys-process.ts', import.meta.url));
  const options: RunnerOptions = { url: server.url, schema, keyed, events: EVENTS };
  await Promise.all(
    Array.from({ length: 5 }, () =>
      run({ args: ['--import', 'tsx', program, JSON.stringify(options)], cwd: dirname(program) }),
    ),
  );
  const { rows } = await pool.query(`SELECT id, overlapped FROM ${schema}.ledger ORDER BY number`);
  const ran: readonly { readonly id: string; readonly overlapped: boolean }[] = rows;
  return { events, ran };
}

test('5 processes run each event of a key once, no two at the same time', async () => {
  const { events, ran } = await runInProcesses('keyed', true);
  expect(ran.filter(({ overlapped }) => overlapped)).toEqual([]);
  expect(ran.map(({ id }) => id).sort()).toEqual(events.map(({ id }) => id).sort());
});

test('without keys the same processes run events of one account at the same time', async () => {
  const { ran } = await runInProcesses('keyless', false);
  expect(ran.filter(({ overlapped }) => overlapped).length).toBeGreaterThan(0);
  expect(ran).toHaveLength(EVENTS);
});
