/** A worker that stops during its transaction; postgres-processes.test.ts starts it. */
import { writeSync } from 'node:fs';
import pg from 'pg';
import { createReceiver, type UnknownEvent } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';

/** The argument of the process, as JSON. */
export interface WorkerOptions {
  readonly url: string;
  readonly event: UnknownEvent;
  readonly leaseMs: number;
}

const { url, event, leaseMs } = JSON.parse(process.argv[2] ?? '') as WorkerOptions;
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
      // Synchronous: after SIGCONT the process continues here, before any timer.
      writeSync(1, 'written\n');
      process.kill(process.pid, 'SIGSTOP');
    },
  },
});
const { kind, error } = await receiver.handle(event, 'queue');
writeSync(1, `${kind} ${error?.code}\n`);
await pool.end();
