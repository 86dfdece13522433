/** A process of its own on an SQLite file, for tests that race or kill it: `sqlite-process.ts <path> <task>`. */
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

/** Tells the parent, and waits until the message has left: the next moment may be the last. */
function tell(message: unknown): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

const told = () => new Promise((resolve) => process.once('message', resolve));

const tasks: Readonly<Record<string, () => Promise<unknown>>> = {
  /** Opens the file at the same moment as others, then claims the same events as they do. */
  async race() {
    await tell('ready');
    await told();
    const inbox = sqliteInbox(new Database(path));
    const ids = Array.from({ length: 200 }, (_, index) => `evt_${index}`);
    const claims = await Promise.all(ids.map((id) => inbox.claim(event(id), LEASE)));
    await tell(claims.flatMap((claim) => (claim.state === 'claimed' ? [claim.lease.id] : [])));
  },

  /** Claims and completes without end, and tells each event once its completion resolved. */
  async work() {
    const inbox = sqliteInbox(new Database(path));
    for (let number = 0; ; number += 1) {
      const claim = await inbox.claim(event(`${process.pid}-${number}`), LEASE);
      if (claim.state === 'claimed' && (await inbox.complete(claim.lease))) await tell(claim.lease.id);
    }
  },

  /** Writes to the file and keeps it locked until it is told to let go. */
  async lock() {
    const db = new Database(path);
    db.exec('BEGIN IMMEDIATE');
    const unlocked = told().then(() => db.exec('COMMIT'));
    await tell('locked');
    await unlocked;
  },
};

await tasks[task ?? '']?.();
process.disconnect();
