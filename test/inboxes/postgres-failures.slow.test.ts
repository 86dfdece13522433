/** Connections that fail under each data layer: the store is at fault, and never its events. */
import { setTimeout } from 'node:timers/promises';
import type pg from 'pg';
import { createReceiver } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { ownPostgres } from '../services/own-postgres.js';
import { startProxy } from '../services/proxy.js';
import { silent, someEvent } from './claimed.js';
import { DATA_LAYERS, WHOLE_LAYERS } from './orm/data-layers.js';

const postgres = ownPostgres();
const { pool: admin } = postgres;

const CONNECTIONS = 5;

const layers = Object.entries(DATA_LAYERS).filter(([layer]) => WHOLE_LAYERS.includes(layer));

describe.each(layers)('%s', (layer, open) => {
  async function openInbox(url: string) {
    const opened = await open({ url, connections: CONNECTIONS, connectTimeoutMs: 1_000 });
    onTestFinished(async () => void (await opened.close()));
    return postgresInbox(opened.pool as pg.Pool, { transactional: true });
  }

  test('connections to a server that became read-only are closed, and the next ones reach the new primary', async () => {
    const role = `role_${layer.replaceAll(/\W/g, '_').toLowerCase()}`;
    await admin.query(`CREATE ROLE ${role} SUPERUSER LOGIN PASSWORD 'p'`);
    await admin.query(`ALTER ROLE ${role} SET default_transaction_read_only = on`);
    const url = new URL(postgres.server.url);
    url.username = role;
    url.password = 'p';
    const inbox = await openInbox(url.href);
    await Promise.all(Array.from({ length: CONNECTIONS }, () => inbox.count()));
    // Connections that are open keep what they began with, as those to an old primary do.
    await admin.query(`ALTER ROLE ${role} RESET default_transaction_read_only`);
    // Bounded, as each step of a receiver is: postgres.js drops what it sent to a connection that is being closed.
    const claim = () =>
      Promise.race([
        inbox.claim(someEvent(), { leaseMs: 60_000, origin: 'push' }),
        setTimeout(5_000, { state: 'no answer' }),
      ]);
    const isWritable = async () => {
      const answers = await Promise.allSettled(Array.from({ length: 4 * CONNECTIONS }, claim));
      return answers.every((answer) => answer.status === 'fulfilled' && answer.value.state === 'claimed');
    };
    let rounds = 0;
    while (!(await isWritable())) {
      rounds += 1;
      expect(rounds, 'rounds of claims that fail').toBeLessThan(10);
    }
    expect(rounds).toBeGreaterThan(0);
  });

  test('a transaction left open on a connection fails one step, and the steps after it are committed', async () => {
    const opened = await open({ url: postgres.server.url, connections: 1, connectTimeoutMs: 1_000 });
    onTestFinished(async () => void (await opened.close()));
    const inbox = postgresInbox(opened.pool as pg.Pool, { transactional: true });
    const stored = async (id: string) => (await postgresInbox(admin).find(id)) !== undefined;
    for (const end of ['SELECT 1', 'SELECT 1 / 0']) {
      const [lost, next] = [someEvent(), someEvent()];
      await opened.pool.query('BEGIN');
      await opened.pool.query(end).catch(() => undefined);
      const claim = async (event: typeof lost) => inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
      // The failed statement has closed the connection of some pools.
      const isClaimed = await claim(lost).then(
        ({ state }) => state === 'claimed',
        () => false,
      );
      expect(await stored(lost.id)).toBe(isClaimed);
      if (end === 'SELECT 1') expect(isClaimed).toBe(false);
      expect((await claim(next)).state).toBe('claimed');
      expect(await stored(next.id)).toBe(true);
    }
  });

  test('transactions that cannot begin are unavailable, leave no connection behind and count against no event', async () => {
    const proxy = await startProxy(postgres.server.port);
    const url = new URL(postgres.server.url);
    url.port = String(proxy.port);
    const inbox = await openInbox(url.href);
    const receiver = createReceiver({
      ...{ secret: 'x', inbox, maxAttempts: 2, logger: silent },
      handlers: { 'transfer.settled': () => undefined },
    });
    proxy.breaks = (sent) => /begin isolation|start transaction/i.test(sent);
    const events = Array.from({ length: 2 * CONNECTIONS }, () => someEvent());
    for (const event of events) {
      const { kind, error } = await receiver.handle(event, 'push');
      expect([kind, error?.code]).toEqual(['unavailable', 'ERR_INBOX_FAILED']);
    }
    // Nothing is stored of a first attempt that cannot begin. A stored event is received again, without an attempt.
    await admin.query('TRUNCATE stablehooks.events');
    const stored = [someEvent(), someEvent()];
    await inbox.record(stored, { dueInMs: 0, origin: 'pull' });
    for (let attempt = 0; attempt < 3; attempt++) {
      await admin.query("UPDATE stablehooks.events SET due_at = now() WHERE state = 'received'");
      expect(await receiver.redrive()).toMatchObject({ unavailable: stored.length });
    }
    proxy.breaks = () => false;
    for (const { id } of events) expect(await inbox.find(id)).toBeUndefined();
    for (const { id } of stored)
      expect(await inbox.find(id)).toMatchObject({ state: 'received', attempts: 0 });
    await vi.waitFor(
      async () => {
        const after = await Promise.all(
          Array.from({ length: CONNECTIONS }, () => receiver.handle(someEvent(), 'push')),
        );
        expect(after.map(({ kind }) => kind)).toEqual(Array(CONNECTIONS).fill('handled'));
      },
      { timeout: 60_000 },
    );
  });
});
