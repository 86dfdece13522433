/** The old and the new release of an app run over one inbox while one replaces the other, under load. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { EventType, InboxRecord } from 'stablehooks';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { type Bundle, bundle } from '../bundle.js';
import { startPostgres } from '../services/postgres.js';
import type { Release, ReleaseSettings } from './releases-process.js';

const secret = 'whsec_releases';
const EVENTS_PER_STEP = 60;
/** The types that only one release handles. A process of the other one ignores an event that is new to the inbox. */
const OF_ONE_RELEASE: readonly EventType[] = ['accept.confirmed', 'transfer.failed', 'redeem.failed'];

let program: Bundle;
beforeAll(async () => {
  program = await bundle(new URL('./releases-process.ts', import.meta.url));
});
afterAll(() => program.remove());

/** Replaces two old processes by `next`, back, and again, while events arrive. */
async function deploy(next: Release, { expect, onTestFinished }: TestContext) {
  const postgres = await startPostgres();
  const pool = new pg.Pool({ connectionString: postgres.url }).on('error', () => undefined);
  const sandbox = createSandbox({
    ...{ secret, seed: 1, concurrency: 50, maxAttempts: 20, retryBaseMs: 50, retryMaxMs: 500 },
    faults: { duplicate: 0.3 },
  });
  const slots: { port: number; stop(signal: NodeJS.Signals): Promise<void> }[] = [];
  onTestFinished(async () => {
    await Promise.all(slots.map(({ stop }) => stop('SIGKILL')));
    await sandbox.close();
    await pool.end();
    await postgres.stop();
  });
  await migratePostgres(pool);
  // Without a key: only the inbox prevents a second entry.
  await pool.query('CREATE TABLE ledger (event_id text NOT NULL)');

  async function start(release: Release) {
    const settings: ReleaseSettings = { release, secret, databaseUrl: postgres.url };
    const child = fork(program.file, [JSON.stringify(settings)], { execArgv: [] });
    const exit = once(child, 'exit');
    const [{ port }] = (await once(child, 'message')) as [AddressInfo];
    const stop = async (signal: NodeJS.Signals) => {
      child.kill(signal);
      await exit;
    };
    return { port, stop };
  }

  let deliveries = 0;
  sandbox.endpoints.add({
    fetch(request) {
      deliveries += 1;
      return fetch(new Request(`http://127.0.0.1:${slots[deliveries % 2]?.port ?? 1}/`, request));
    },
  });
  slots.push(await start('old'), await start('old'));
  const types: readonly EventType[] = ['transfer.settled', 'redeem.completed', ...OF_ONE_RELEASE];
  const steps: readonly (readonly [slot: number, Release])[] = [
    ...([
      [0, next],
      [1, next],
      [0, 'old'],
      [0, next],
    ] as const),
    // A rollback: it ends what the removed handler has left.
    [1, 'old'],
  ];
  for (const [slot, release] of steps) {
    const replace = async () => {
      const old = slots[slot];
      slots[slot] = await start(release);
      await old?.stop('SIGTERM');
    };
    const replaced = replace();
    for (let fired = 0; fired < EVENTS_PER_STEP; fired++) {
      sandbox.emit(types[fired % types.length] ?? 'transfer.settled');
      await pause(10);
    }
    await replaced;
  }
  await sandbox.settled();

  const inbox = postgresInbox(pool);
  const open = async () => (await inbox.list({ limit: 1_000 })).filter(({ state }) => state !== 'done');
  await expect.poll(open).toEqual([]);
  const { rows } = await pool.query<{ event_id: string }>('SELECT event_id FROM ledger');
  const timesOf = (id: string) => rows.filter(({ event_id }) => event_id === id).length;
  const events = await Promise.all(
    sandbox.events().map(async ({ id, type }) => {
      const record = await inbox.find(id);
      return { id, times: timesOf(id), isIgnored: isIgnored(record, type as EventType) };
    }),
  );
  const idsOf = (all: typeof events) => all.map(({ id }) => id);
  return {
    events: events.length,
    ignored: events.filter(({ isIgnored }) => isIgnored).length,
    lost: idsOf(events.filter(({ times, isIgnored }) => times === 0 && !isIgnored)),
    twice: idsOf(events.filter(({ times, isIgnored }) => times > (isIgnored ? 0 : 1))),
  };
}

/** Whether no process ran it, because its type is one that only one release handles. */
function isIgnored(record: InboxRecord | undefined, type: EventType): boolean {
  return OF_ONE_RELEASE.includes(type) && record?.state === 'done' && record.history.length === 0;
}

test.concurrent('while releases with other handlers and options replace each other, each event takes effect once', async (context) => {
  const { ignored, events, ...wrong } = await deploy('new', context);
  expect(wrong).toEqual({ lost: [], twice: [] });
  expect(ignored).toBeGreaterThan(0);
  expect(ignored).toBeLessThan((events * 3) / 5);
});

test.concurrent('a new release with an inbox of its own is found to repeat events', async (context) => {
  const { lost, twice } = await deploy('forgetful', context);
  expect([...lost, ...twice]).not.toEqual([]);
});
