/** A crash of the server: nothing that was claimed or answered is lost. */
import type pg from 'pg';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { expect, test, vi } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { claimed, someEvent } from './claimed.js';

const { pool } = ownPostgres('CREATE TABLE ledger (id text)');

test('a crash of the server loses no claim, and nothing that was answered', async () => {
  const transactional = postgresInbox(pool, { transactional: true });
  const plain = postgresInbox(pool);
  const claim = async (inbox: Pick<typeof plain, 'claim'>) => {
    const event = someEvent();
    return { event, lease: await claimed(inbox, event) };
  };

  // It writes what did not wait to the disk, a fifth of a second later.
  const writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
  process.kill((await pool.query(writer)).rows[0].pid, 'SIGSTOP');

  const ofPlain = await claim(plain);
  const handled = await claim(transactional);
  const effect = async (tx: pg.PoolClient) => {
    await tx.query('INSERT INTO ledger VALUES ($1)', [handled.event.id]);
  };
  expect(await transactional.transaction?.(handled.lease, effect)).toBe(true);
  const failed = await claim(transactional);
  expect(await transactional.fail(failed.lease, { retryAfterMs: 60_000, error: 'no' })).toBe(true);
  const recorded = await claim(transactional);
  // Another process answers this delivery 202.
  expect(await plain.record([recorded.event], { origin: 'push', dueInMs: 0 })).toEqual(['leased']);
  const lost = await claim(transactional);

  const { rows } = await pool.query('SELECT pg_backend_pid() AS pid');
  process.kill(rows[0].pid, 'SIGKILL');
  await vi.waitFor(() => pool.query('SELECT 1'), { timeout: 60_000, interval: 100 });

  const stateOf = async ({ event }: typeof lost) => (await plain.find(event.id))?.state;
  expect(await stateOf(lost)).toBe('leased');
  expect(await stateOf(ofPlain)).toBe('leased');
  expect(await stateOf(recorded)).toBe('leased');
  expect(await stateOf(failed)).toBe('failed');
  expect(await stateOf(handled)).toBe('done');
  expect((await pool.query('SELECT id FROM ledger')).rows).toEqual([{ id: handled.event.id }]);
});
