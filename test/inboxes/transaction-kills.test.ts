/**
 * Kills processes at random moments while they handle events in transactions, over each data layer: afterwards the
 * ledger has each event exactly once.
 *
 * `npm run test:kills` kills 200 processes per data layer, which takes about a minute for each. KILLS sets another
 * number, LAYER_KILLS one for this test alone.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Bundle, bundle } from '../bundle.js';
import { readCount } from '../read-count.js';
import { DATA_LAYERS } from './orm/data-layers.js';
import { type Database, startDatabase } from './orm/with-data-layers.js';

const KILLS = readCount('LAYER_KILLS or KILLS', process.env['LAYER_KILLS'] ?? process.env['KILLS'] ?? '6');
const LEASE_MS = 1_000;

let database: Database;
let program: Bundle;
beforeAll(async () => {
  database = await startDatabase();
  program = await bundle(new URL('./orm/kill-worker.ts', import.meta.url));
});
afterAll(async () => {
  program.remove();
  await database.stop();
});

test.each(Object.keys(DATA_LAYERS))(
  `SIGKILL of ${KILLS} processes over %s leaves each event in the ledger exactly once`,
  async (layer) => {
    const { server, admin } = database;
    const inbox = postgresInbox(admin);
    await admin.query('TRUNCATE ledger, stablehooks.events');
    const children = new Set<ChildProcess>();
    const ids: string[] = [];

    async function recordEvents() {
      const page = Array.from({ length: 16 }, () => ({
        ...exampleEvent('transfer.settled'),
        id: `evt_${randomUUID()}`,
      }));
      await inbox.record(page, { dueInMs: 0, origin: 'pull' });
      ids.push(...page.map(({ id }) => id));
    }

    /** Starts a process, and resolves when it has begun its first transaction. */
    async function startWorker(): Promise<ChildProcess> {
      const env = { ...process.env, LAYER: layer, URL: server.url, LEASE_MS: String(LEASE_MS) };
      const child = fork(program.file, { env, execArgv: [] });
      children.add(child);
      child.once('exit', () => children.delete(child));
      await messageOf(child);
      let started = false;
      const starting = messageOf(child).then(() => {
        started = true;
      });
      child.send('begin');
      await recordEvents();
      while (!started) {
        await Promise.race([starting, pause(50)]);
        // Other processes can take all events first.
        const due = await admin.query('SELECT FROM stablehooks.events WHERE due_at <= now() LIMIT 1');
        if (due.rowCount === 0) await recordEvents();
      }
      return child;
    }

    let kills = 0;
    async function killWorkers() {
      while (kills < KILLS) {
        kills += 1;
        const child = await startWorker();
        // The random wait is the subject of the test, not a synchronisation.
        await pause(Math.random() * 25);
        child.kill('SIGKILL');
        await once(child, 'exit');
      }
    }

    try {
      await Promise.all(Array.from({ length: availableParallelism() + 1 }, killWorkers));
      await startWorker();
      await vi.waitFor(
        async () => {
          const open = (await inbox.count()).filter(({ state, count }) => state !== 'done' && count > 0);
          expect(open).toEqual([]);
        },
        { timeout: 120_000, interval: 100 },
      );
    } finally {
      for (const child of children) child.kill('SIGKILL');
    }

    const { rows } = await admin.query<{ id: string }>('SELECT id FROM ledger');
    expect(rows.map(({ id }) => id).sort()).toEqual([...ids].sort());
    const again = await admin.query('SELECT FROM stablehooks.events WHERE attempts > 1');
    // Kills that hit no transaction show nothing.
    expect(again.rowCount).toBeGreaterThan(0);
    console.log(`${layer}: ${KILLS} kills, ${ids.length} events, ${again.rowCount} ran again`);
  },
  300_000 + KILLS * 10_000,
);

/** The next message of a process; rejects when it ends before. */
async function messageOf(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`The process ended with ${code} before it was ready.`);
  });
  await Promise.race([once(child, 'message'), ended]);
}
