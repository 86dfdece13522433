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

// Without a primary key, which would refuse a second entry.
const postgres = ownPostgres('CREATE TABLE ledger (id text, worker text)');
const { pool } = postgres;

/** Handles the event in this process, repeatedly until the lease of the other worker has expired. */
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

test('a worker that is stopped until its lease expires cannot commit, and another worker handles the event once', async () => {
  const event = someEvent();
  // Far longer than its one statement takes.
  const options: WorkerOptions = { url: postgres.server.url, event, leaseMs: 3_000 };
  const program = fileURLToPath(new URL('./postgres-process.ts', import.meta.url));
  const args = ['--import', 'tsx', program, JSON.stringify(options)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exit = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exit;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toBe('written');

  expect(await workElsewhere(event)).toMatchObject({ kind: 'handled', attempt: 2 });
  child.kill('SIGCONT');
  // On a busy machine the server can have ended its session, whose time is over with the lease, before it continues.
  expect((await lines.next()).value).toMatch(/^(busy ERR_LEASE_LOST|unavailable ERR_INBOX_FAILED)$/);
  expect((await pool.query('SELECT id, worker FROM ledger')).rows).toEqual([
    { id: event.id, worker: 'other' },
  ]);
  expect(await postgresInbox(pool).find(event.id)).toMatchObject({ state: 'done', attempts: 2 });
});
