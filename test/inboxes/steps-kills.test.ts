/**
 * Kills processes at random moments while their handlers pay by steps at a bank that counts calls by their keys. Each handler
 * fails once after its payouts.
 *
 * `KILLS=1000` kills as many processes per store and mode.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import Database from 'libsql';
import type { Inbox, InboxOperations } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Bundle, bundle } from '../bundle.js';
import { KILLS, killWorkers, TIMEOUT_MS } from './kill-workers.js';
import { startDatabase } from './orm/with-data-layers.js';

interface Store {
  readonly env: Readonly<Record<string, string>>;
  readonly inbox: Inbox<unknown> & InboxOperations;
  /** The ids in the ledger; `undefined` for a store whose handlers have no transaction. */
  ledger(): Promise<readonly string[] | undefined>;
  stop(): unknown;
}

async function startPostgresStore(): Promise<Store> {
  const { server, admin, stop } = await startDatabase();
  return {
    env: { STORE: 'postgres', URL: server.url },
    inbox: postgresInbox(admin),
    ledger: async () => (await admin.query<{ id: string }>('SELECT id FROM ledger')).rows.map(({ id }) => id),
    stop,
  };
}

async function startSqliteStore(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'steps-kills-'));
  const path = join(folder, 'inbox.db');
  const db = new Database(path);
  return {
    env: { STORE: 'sqlite', URL: path },
    // The workers write all the time, and SQLite does not promise this process its turn.
    inbox: sqliteInbox(db, { busyTimeoutMs: 60_000 }),
    ledger: async () => undefined,
    stop() {
      db.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** The payouts of each account, by their keys, in another process than the handlers'. */
async function startBank() {
  const payouts = new Map<string, Set<string>>();
  const server = createServer(async (request, response) => {
    const { account, key } = JSON.parse(await text(request)) as { account: string; key: string };
    payouts.set(account, (payouts.get(account) ?? new Set()).add(key));
    // A process can be killed before it receives the answer.
    setTimeout(() => response.end(key), Math.random() * 4);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/`, payouts, stop: () => server.close() };
}

let program: Bundle;
beforeAll(async () => {
  program = await bundle(new URL('./steps-kill-worker.ts', import.meta.url));
});
afterAll(() => program.remove());

describe.each([
  { name: 'with tx over Postgres', start: startPostgresStore, way: 'recorded' },
  { name: 'of first attempts over Postgres', start: startPostgresStore, way: 'delivered' },
  { name: 'over SQLite', start: startSqliteStore, way: 'recorded' },
] as const)('steps $name', ({ start, way }) => {
  let store: Store;
  let bank: Awaited<ReturnType<typeof startBank>>;
  beforeAll(async () => {
    store = await start();
    bank = await startBank();
  });
  afterAll(async () => {
    bank.stop();
    await store.stop();
  });

  /** Kills workers, and counts the accounts that were paid never and more than once. */
  async function run(MODE: string) {
    const env = { ...store.env, BANK: bank.url, MODE };
    const ids = await killWorkers({ way, file: program.file, env, inbox: store.inbox });
    const dead = await store.inbox.list({ state: 'dead', ids, limit: 100_000 });
    const isDead = new Set(dead.map(({ id }) => id));
    const accounts = ids.flatMap((id) => [`${id} payout`, `${id} fee`]);
    const paid = (account: string) => bank.payouts.get(account)?.size ?? 0;
    const double = accounts.filter((account) => paid(account) > 1);
    const lost = accounts.filter(
      (account) => paid(account) === 0 && !isDead.has(account.split(' ')[0] ?? ''),
    );
    const booked = (await store.ledger())?.filter((id) => ids.includes(id)).toSorted();
    const handled = ids.filter((id) => !isDead.has(id)).toSorted();
    if (booked !== undefined) expect(booked).toEqual(handled);
    console.log(
      `${MODE}: ${KILLS} kills, ${ids.length} events, ${dead.length} dead, ${double.length} paid twice`,
    );
    return { double, lost, dead };
  }

  test(
    `SIGKILL of ${KILLS} processes with idempotency keys: no payout is doubled or lost, and none is dead`,
    async () => expect(await run('keys')).toEqual({ double: [], lost: [], dead: [] }),
    TIMEOUT_MS,
  );

  test(
    `SIGKILL of ${KILLS} processes without keys, with onInterrupted: no payout is doubled, and every unknown one is dead with its sentence`,
    async () => {
      let interrupted = 0;
      // Kills that interrupt no step show nothing, so others follow.
      while (interrupted === 0) {
        const { double, lost, dead } = await run('guarded');
        expect([double, lost]).toEqual([[], []]);
        for (const { id, lastError } of dead) {
          const unknown = (await store.inbox.steps(id)).filter(({ result }) => result === null);
          expect(unknown).toHaveLength(1);
          expect(lastError).toContain(`Step ${unknown[0]?.name} began`);
        }
        interrupted = dead.length;
      }
    },
    TIMEOUT_MS,
  );

  test(
    'the control, whose steps are not stored, pays twice',
    async () => expect((await run('unstored')).double.length).toBeGreaterThan(0),
    TIMEOUT_MS,
  );
});
