/** A worker that stops or dies in the middle of its transaction: forked by postgres-processes.test.ts. */
import { writeSync } from 'node:fs';
import pg from 'pg';
import { createReceiver, type UnknownEvent } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';

/** What the process is told to do. */
export interface Orders {
  readonly url: string;
  readonly event: UnknownEvent;
  readonly signal: 'SIGSTOP' | 'SIGKILL';
  readonly leaseMs: number;
}

const { url, event, signal, leaseMs } = JSON.parse(process.argv[2] ?? '') as Orders;
const pool = new pg.Pool({ connectionString: url });

const receiver = createReceiver({
  secret: 'x',
  inbox: postgresInbox(pool, { transactional: true }),
  leaseMs,
  handlerTimeoutMs: leaseMs - 1,
  onOutcome: () => undefined,
  handlers: {
    'transfer.settled': async ({ id }, { tx }) => {
      await tx.query('INSERT INTO ledger VALUES ($1, $2)', [id, 'stopped']);
      // Synchronously, so that whoever goes on after a stop goes on here, before any timer.
      writeSync(1, 'written\n');
      process.kill(process.pid, signal);
    },
  },
});
const { kind, error } = await receiver.handle(event, 'queue');
writeSync(1, `${kind} ${error?.code}\n`);
await pool.end();
