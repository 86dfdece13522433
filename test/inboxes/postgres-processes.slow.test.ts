import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createReceiver, type Outcome, type UnknownEvent } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { expect, onTestFinished, test } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { someEvent } from './claimed.js';
import type { WorkerOptions } from './postgres-process.js';

const postgres = ownPostgres();
const { pool } = postgres;

/** How long the tests wait until the lease of a worker lapses: far longer than its one statement takes. */
const LEASE_MS = 3_000;

/** Creates an empty ledger, with or without a primary key that refuses a second entry. */
async function openLedger(key: 'keyed' | 'keyless') {
  await pool.query('DROP TABLE IF EXISTS ledger');
  await pool.query(`CREATE TABLE ledger (id text ${key === 'keyed' ? 'PRIMARY KEY' : ''}, worker text)`);
  return async () => (await pool.query('SELECT id, worker FROM ledger')).rows;
}

/** Starts a process that handles the event, and waits until it has written to the ledger. */
async function startWorker(options: Omit<WorkerOptions, 'url'>) {
  const program = fileURLToPath(new URL('./postgres-process.ts', import.meta.url));
  const args = ['--import', 'tsx', program, JSON.stringify({ url: postgres.server.url, ...options })];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exit = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string> => (await lines.next()).value ?? 'ended';
  expect(await nextLine()).toBe('written');
  return { child, exit, nextLine };
}

/** Handles the event in this process, repeatedly until the lease of the first worker has lapsed. */
async function workElsewhere(event: UnknownEvent): Promise<Outcome> {
  const receiver = createReceiver({
    secret: 'x',
    inbox: postgresInbox(pool, { transactional: true }),
    onOutcome: () => undefined,
    handlers: {
      'transfer.settled': async ({ id }, { tx }) => {
        await tx.query('INSERT INTO ledger VALUES ($1, $2)', [id, 'other']);
      },
    },
  });
  for (;;) {
    const outcome = await receiver.handle(event, 'queue');
    if (outcome.kind !== 'busy') return outcome;
  }
}

test('a worker that is stopped until its lease lapses cannot commit, and another worker handles the event once', async () => {
  const entries = await openLedger('keyless');
  const event = someEvent();
  const { child, nextLine } = await startWorker({ event, signal: 'SIGSTOP', leaseMs: LEASE_MS });
  expect(await workElsewhere(event)).toMatchObject({ kind: 'handled', attempt: 2 });
  child.kill('SIGCONT');
  // On a busy machine the server can have ended its session, whose time is over with the lease, before it continues.
  expect(await nextLine()).toMatch(/^(busy ERR_LEASE_LOST|unavailable ERR_INBOX_FAILED)$/);
  expect(await entries()).toEqual([{ id: event.id, worker: 'other' }]);
  expect(await postgresInbox(pool).find(event.id)).toMatchObject({ state: 'done', attempts: 2 });
});

test('the locks of a stopped worker are released when its lease lapses', async () => {
  const entries = await openLedger('keyed');
  const event = someEvent();
  const { child, nextLine } = await startWorker({ event, signal: 'SIGSTOP', leaseMs: LEASE_MS });
  // The uncommitted entry has the same key: this waits until the server ends the session of the stopped worker.
  expect(await workElsewhere(event)).toMatchObject({ kind: 'handled' });
  expect(await entries()).toEqual([{ id: event.id, worker: 'other' }]);
  child.kill('SIGCONT');
  expect(await nextLine()).toMatch(/^(busy|unavailable) /);
  expect(await entries()).toEqual([{ id: event.id, worker: 'other' }]);
});
