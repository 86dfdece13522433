/** Runs a task on an SQLite file in a separate process: `sqlite-process.ts <path> <task>`. */
import Database from 'libsql';
import type { UnknownEvent } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';

const [, , path = '', task] = process.argv;

const event = (id: string): UnknownEvent => ({
  id,
  type: 'transfer.settled',
  created_at: '2026-01-02T03:04:05Z',
  payload: {},
});

const LEASE = { leaseMs: 3_600_000, origin: 'push' } as const;

/** Resolves when the message has left the process, which the parent can kill at any time. */
function send(message: unknown): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

const nextMessage = () => new Promise((resolve) => process.once('message', resolve));

const tasks: Readonly<Record<string, () => Promise<unknown>>> = {
  /** Opens the file and claims the same events as other processes at the same time. */
  async race() {
    await send('ready');
    await nextMessage();
    const inbox = sqliteInbox(new Database(path));
    const ids = Array.from({ length: 200 }, (_, index) => `evt_${index}`);
    const claims = await Promise.all(ids.map((id) => inbox.claim(event(id), LEASE)));
    await send(claims.flatMap((claim) => (claim.state === 'claimed' ? [claim.lease.id] : [])));
  },

  /** Keeps the file locked until a message arrives. */
  async lock() {
    const db = new Database(path);
    db.exec('BEGIN IMMEDIATE');
    const unlocked = nextMessage().then(() => db.exec('COMMIT'));
    await send('locked');
    await unlocked;
  },
};

await tasks[task ?? '']?.();
process.disconnect();
