/** Draws the picture of the README: `npm run picture`. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import Database from 'libsql';
import { chromium } from 'playwright-core';
import { EVENT_TYPES } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox } from 'stablehooks-kit/inspector';
import { ACTION_NAMES } from '../../src/inspector/handler.js';
import { serve } from '../http-server.js';

const HOUR = 3_600_000;
const README = fileURLToPath(new URL('../../../docs/images/inspector.png', import.meta.url));

/** An inbox at night: dead events of a closed ledger, retries, a lapsed lease, two gaps. */
async function fillInbox(db: Database.Database, dead: number) {
  const inbox = sqliteInbox(db);
  const now = Date.now();
  const long = 'The ledger refused the entry: account 4711 of the institution was closed by its owner';
  const add = db.prepare(
    `INSERT INTO stablehooks_events (id, type, source, event, received_at, updated_at, due_at, state, attempts, last_error)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  for (let index = 0; index < 3_000; index += 1) {
    const type = EVENT_TYPES[index % EVENT_TYPES.length] ?? 'transfer.settled';
    const id = `evt_${(0x9e3779b1 * (index + 1)).toString(36).slice(0, 11)}${index}`;
    const at = now - index * 41_000;
    const isDead = index % 3 === 1 && index / 3 < dead;
    const isFailed = index % 97 === 5;
    const state = isDead ? 'dead' : isFailed ? 'failed' : 'done';
    const event = JSON.stringify(exampleEvent(type, { id }));
    const error = isDead
      ? index % 2 === 0
        ? long
        : 'ledger is read-only'
      : isFailed
        ? 'connect ECONNREFUSED'
        : null;
    const attempts = isDead ? 8 : isFailed ? 2 : 1;
    add.run(
      id,
      type,
      index % 40 === 0 ? 'pull' : 'push',
      event,
      at,
      at + 900,
      isFailed ? now + 60_000 : null,
      state,
      attempts,
      error,
    );
  }
  const lapsed = exampleEvent('transfer.failed', { id: 'evt_lapsed' });
  add.run(
    lapsed.id,
    lapsed.type,
    'push',
    JSON.stringify(lapsed),
    now - HOUR,
    now - HOUR,
    now - HOUR + 30_000,
    'leased',
    1,
    null,
  );
  await inbox.acquirePoll({ holder: 'picture', leaseMs: HOUR });
  const gap = (hoursAgo: number, lengthMs: number, acknowledged = false) => ({
    from: now - hoursAgo * HOUR,
    until: {
      'transfer.settled': now - hoursAgo * HOUR + lengthMs,
      'redeem.failed': now - hoursAgo * HOUR + lengthMs,
    },
    reason: 'not-reached' as const,
    openedAt: now - hoursAgo * HOUR + lengthMs,
    acknowledged: acknowledged ? { by: 'Ada', reason: 'The books agree.', at: now - HOUR } : null,
  });
  await inbox.savePoll(
    {
      ...{ since: now - 34 * HOUR, watermark: now - 3 * HOUR, limit: 50, oldest: null },
      gaps: [gap(20, 3 * HOUR), gap(11, 20_000), gap(27, HOUR, true)],
    },
    { holder: 'picture', leaseMs: 0 },
  );
  return inbox;
}

const folder = await mkdtemp(join(tmpdir(), 'pictures-'));
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const db = new Database(join(folder, 'app.db'));
const inspector = createInspector({
  source: fromInbox(await fillInbox(db, 900), { name: 'payments', run: async () => 'handled' }),
  actions: ACTION_NAMES,
  authorize: () => true,
});
const server = await serve(getRequestListener(inspector.fetch));
try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 750 }, timezoneId: 'UTC' });
  const page = await context.newPage();
  await page.goto(`${server.url}/?view=overview`);
  await page.getByText('Needs you:').waitFor();
  await page.screenshot({ path: README });
} finally {
  await browser.close();
  await server[Symbol.asyncDispose]();
  db.close();
  await rm(folder, { recursive: true });
}
// The streams of closed pages would keep the process alive.
process.exit();
