/**
 * Kills processes at random moments while they handle events in transactions over one SQLite file: afterwards the ledger
 * has each event exactly once.
 */
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bundle, bundle } from '../bundle.js';
import { KILLS, killWorkers, TIMEOUT_MS, WAYS } from './kill-workers.js';
import { connect, drivers, freshPath } from './sqlite-drivers.js';

let program: Bundle;
beforeAll(async () => {
  program = await bundle(new URL('./sqlite-kill-worker.ts', import.meta.url));
});
afterAll(() => program.remove());

test.each(drivers.flatMap(({ name: driver }) => WAYS.map((way) => ({ driver, way }))))(
  `SIGKILL of ${KILLS} processes over $driver leaves each $way event in the ledger exactly once`,
  async ({ driver, way }) => {
    const path = freshPath();
    const db = connect(path);
    // The workers write all the time, and SQLite does not promise this process its turn.
    const inbox = sqliteInbox(db, { busyTimeoutMs: 60_000 });
    db.exec('CREATE TABLE ledger (id TEXT NOT NULL)');
    const ids: string[] = [];
    let ranAgain = 0;
    // Kills that hit no transaction show nothing, so others follow.
    while (ranAgain === 0) {
      const env = { DRIVER: driver, FILE: path };
      ids.push(...(await killWorkers({ way, file: program.file, env, inbox })));
      const rows = db.prepare('SELECT id FROM ledger').all() as { readonly id: string }[];
      expect(rows.map(({ id }) => id).sort()).toEqual(ids.toSorted());
      // The first attempts that a kill ended are not counted anywhere.
      ranAgain =
        way === 'delivered'
          ? 1
          : db.prepare('SELECT id FROM stablehooks_events WHERE attempts > 1').all().length;
      console.log(`${driver}: ${KILLS} kills, ${ids.length} ${way} events, ${ranAgain} ran again`);
    }
  },
  TIMEOUT_MS,
);
