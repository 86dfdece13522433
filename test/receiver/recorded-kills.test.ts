/**
 * Kills receivers that answer 202 before their handlers run, at random moments between the answer and the end of the
 * handlers: every event that was answered takes effect, although nobody delivers it again.
 *
 * `npm run test:kills` kills 200 times, half of it over an SQLite file and half over Postgres. KILLS sets another
 * number.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'libsql';
import pg from 'pg';
import type { InboxOperations } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { type Bundle, bundle } from '../bundle.js';
import { readCount } from '../read-count.js';
import { startPostgres } from '../services/postgres.js';

const KILLS = Math.ceil(readCount('KILLS', process.env['KILLS'] ?? '6') / 2);
const secret = 'whsec_recorded_kills';

const BURST = 8;

let program: Bundle;
beforeAll(async () => {
  program = await bundle(new URL('./recorded-process.ts', import.meta.url));
});
afterAll(() => program.remove());

/** Where the processes store events and effects, as this test sees it. */
interface Store {
  readonly inbox: Pick<InboxOperations, 'find' | 'count' | 'list'>;
  /** The ids of all effects, an id twice if its event took effect twice. */
  ledger(): Promise<readonly string[]>;
  readonly env: Readonly<Record<string, string>>;
}

function openFile(name: 'sqlite' | 'forgetful'): Store {
  const folder = mkdtempSync(join(tmpdir(), 'stablehooks-recorded-'));
  const [FILE, LEDGER] = [join(folder, 'inbox.db'), join(folder, 'ledger')];
  const db = new Database(FILE);
  onTestFinished(() => {
    db.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    inbox: sqliteInbox(db),
    ledger: async () => (existsSync(LEDGER) ? readFileSync(LEDGER, 'utf8').trimEnd().split('\n') : []),
    env: { STORE: name, FILE, LEDGER },
  };
}

async function openPostgres(): Promise<Store> {
  const server = await startPostgres();
  const pool = new pg.Pool({ connectionString: server.url }).on('error', () => undefined);
  onTestFinished(async () => {
    await pool.end();
    await server.stop();
  });
  await migratePostgres(pool);
  await pool.query('CREATE TABLE ledger (id text)');
  return {
    inbox: postgresInbox(pool),
    ledger: async () => (await pool.query<{ id: string }>('SELECT id FROM ledger')).rows.map(({ id }) => id),
    env: { STORE: 'postgres', URL: server.url },
  };
}

/** Kills processes until so many kills have hit an event that was answered 202 and had not ended; returns their ids. */
async function killAfterAnswers({ inbox, env }: Store, kills: number) {
  const answered: string[] = [];
  const children = new Set<ChildProcess>();

  async function start() {
    const child = fork(program.file, {
      env: { ...process.env, SECRET: secret, ...env },
      execArgv: [],
    });
    children.add(child);
    const exit = once(child, 'exit').finally(() => children.delete(child));
    const ended = exit.then(([code]) => {
      throw new Error(`The process ended with ${code} before it listened.`);
    });
    const [{ port }] = (await Promise.race([once(child, 'message'), ended])) as [AddressInfo];
    const kill = async () => {
      child.kill('SIGKILL');
      await exit;
    };
    return { url: `http://127.0.0.1:${port}/hooks`, kill };
  }

  /** Delivers one event, once; resolves to its id if it was answered 202. */
  async function deliver(url: string, number: number): Promise<string | undefined> {
    // Half of the events have a key, which others wait for when its event is killed.
    const payload = number % 2 === 0 ? { wallet_id: `wal_${number % 4}` } : {};
    const event = exampleEvent('transfer.settled', { payload });
    const signed = await signedRequest(event, { secret });
    // The process is killed before many answers.
    const response = await fetch(url, signed).catch(() => undefined);
    if (response === undefined) return undefined;
    if (response.status !== 202) throw new Error(`A delivery was answered ${response.status}.`);
    answered.push(event.id);
    return event.id;
  }

  let hits = 0;
  async function killOneAfterAnother() {
    while (hits < kills) {
      const { url, kill } = await start();
      const deliveries = Array.from({ length: BURST }, (_, number) => deliver(url, number));
      await Promise.race(deliveries);
      // The random wait is the subject of the test, not a synchronisation.
      await pause(Math.random() * 20);
      await kill();
      const ids = (await Promise.all(deliveries)).filter((id) => id !== undefined);
      const records = await Promise.all(ids.map((id) => inbox.find(id)));
      if (records.some((record) => record?.state !== 'done')) hits += 1;
    }
  }

  try {
    await Promise.all(Array.from({ length: availableParallelism() + 1 }, killOneAfterAnother));
    await start();
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
  return answered;
}

async function check({ inbox, ledger }: Store, answered: readonly string[]) {
  const effects = new Map<string, number>();
  for (const id of await ledger()) effects.set(id, (effects.get(id) ?? 0) + 1);
  const records = await Promise.all(answered.map((id) => inbox.find(id)));
  const done = await inbox.list({ state: 'done', limit: 1_000_000 });
  return {
    missing: answered.filter((_, index) => records[index] === undefined),
    unfinished: records.filter((record) => record !== undefined && record.state !== 'done'),
    withoutEffect: answered.filter((id) => !effects.has(id)),
    doneWithoutEffect: done.filter(({ id }) => !effects.has(id)),
    twice: [...effects].filter(([, count]) => count > 1),
    again: done.filter(({ attempts }) => attempts > 1),
  };
}

const limits = { timeout: 300_000 + KILLS * 10_000 };
const nothing = { missing: [], unfinished: [], withoutEffect: [], doneWithoutEffect: [] };

test(`${KILLS} SIGKILLs after a 202, over an SQLite file, lose no event`, limits, async () => {
  const store = openFile('sqlite');
  const answered = await killAfterAnswers(store, KILLS);
  const { twice, again, ...lost } = await check(store, answered);
  expect(lost).toEqual(nothing);
  // At least once: only an event that was running at a kill can take effect a second time.
  const ranAgain = new Set(again.map(({ id }) => id));
  expect(twice.filter(([id]) => !ranAgain.has(id))).toEqual([]);
  expect(again).not.toEqual([]);
  console.log(
    `SQLite: ${KILLS} kills, ${answered.length} answered 202, ${again.length} ran again, ${twice.length} took effect again`,
  );
});

test(
  `${KILLS} SIGKILLs after a 202, over Postgres with transactions, lose and double no event`,
  limits,
  async () => {
    const store = await openPostgres();
    const answered = await killAfterAnswers(store, KILLS);
    const { again, ...wrong } = await check(store, answered);
    expect(wrong).toEqual({ ...nothing, twice: [] });
    expect(again).not.toEqual([]);
    console.log(`Postgres: ${KILLS} kills, ${answered.length} answered 202, ${again.length} ran again`);
  },
);

test('a SIGKILL after a 202 loses events of an inbox that is not durable', limits, async () => {
  const store = openFile('forgetful');
  const answered = await killAfterAnswers(store, 3);
  const { missing, withoutEffect } = await check(store, answered);
  expect(missing).toEqual(answered);
  expect(withoutEffect).not.toEqual([]);
});
