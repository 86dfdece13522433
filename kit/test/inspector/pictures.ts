/**
 * Draws the picture of docs/inspector.md, or every view in four sizes, in light and dark:
 * `npm run picture`, or `npm run picture -- --all FOLDER`.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import Database from 'libsql';
import { type Browser, chromium } from 'playwright-core';
import { EVENT_TYPES } from 'stablehooks';
import { writePollState } from 'stablehooks/catch-up';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox, fromSandbox, type InspectorSource } from 'stablehooks-kit/inspector';
import { createSandbox, type Sandbox } from 'stablehooks-kit/sandbox';
import { ACTION_NAMES } from '../../src/inspector/handler.js';
import { serve } from '../http-server.js';

const HOUR = 3_600_000;
const SIZES = [
  { width: 390, height: 844 },
  { width: 768, height: 1024 },
  { width: 1440, height: 900 },
  { width: 1920, height: 1080 },
];
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
  await writePollState(inbox, {
    ...{ since: now - 34 * HOUR, watermark: now - 3 * HOUR, limit: 50, oldest: null },
    gaps: [gap(20, 3 * HOUR), gap(11, 20_000), gap(27, HOUR, true)],
  });
  return inbox;
}

async function fillSandbox(): Promise<Sandbox> {
  let count = 0;
  const fetch = async () => {
    count += 1;
    if (count % 7 === 3) return Response.json({ code: 'ERR_HANDLER_FAILED' }, { status: 500 });
    if (count % 29 === 11) return Response.json({ code: 'ERR_SIGNATURE_MISMATCH' }, { status: 401 });
    return Response.json({ outcome: 'handled' });
  };
  const sandbox = createSandbox({ seed: 7, clock: 'manual', endpoints: [{ fetch }], maxAttempts: 4 });
  const limits = { perTx: '50.00', daily: '100.00' };
  const allowlist = ['0x9f8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b'];
  const wallet = sandbox.wallets.create({
    agentId: 'agent-7',
    label: 'ops',
    chain: 'base',
    limits,
    allowlist,
  });
  sandbox.send(wallet.id, { amount: '42.50', to: allowlist[0] ?? '' });
  sandbox.redeem({ failsWith: 'bank' });
  for (let index = 0; index < 60; index += 1) {
    sandbox.emit(EVENT_TYPES[index % EVENT_TYPES.length] ?? 'transfer.settled');
    await sandbox.clock.advance(47_000);
  }
  sandbox.faults.set({ corruptSignature: { next: 2 }, drop: { next: 1 } });
  for (let index = 0; index < 3; index += 1) sandbox.emit('transfer.settled');
  await sandbox.settled();
  sandbox.faults.set({ drop: 0.25, listCap: 20 });
  return sandbox;
}

async function inspect(source: InspectorSource) {
  const inspector = createInspector({ source, actions: ACTION_NAMES, authorize: () => true });
  return serve(getRequestListener(inspector.fetch));
}

type Shot = readonly [
  name: string,
  url: string,
  prepare?: (page: import('playwright-core').Page) => Promise<unknown>,
];

async function shoot(browser: Browser, folder: string, shots: readonly Shot[]): Promise<void> {
  for (const viewport of SIZES) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const context = await browser.newContext({ viewport, colorScheme });
      for (const [name, url, prepare] of shots) {
        const page = await context.newPage();
        await page.goto(url);
        await page.getByText('Loading …').first().waitFor({ state: 'detached' });
        await page.locator('.verdict, .rows, .empty, .faults').first().waitFor();
        await prepare?.(page);
        await page.screenshot({ path: join(folder, `${name}-${viewport.width}-${colorScheme}.png`) });
        await page.close();
      }
      await context.close();
    }
  }
}

const folder = await mkdtemp(join(tmpdir(), 'pictures-'));
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const db = new Database(join(folder, 'app.db'));
const emptyDb = new Database(join(folder, 'empty.db'));
const run = async () => 'handled';
const sandbox = await fillSandbox();
const empty = createSandbox({ clock: 'manual' });
const servers = {
  inbox: await inspect(fromInbox(await fillInbox(db, 900), { name: 'payments', run })),
  sandbox: await inspect(fromSandbox(sandbox)),
  emptyInbox: await inspect(fromInbox(sqliteInbox(emptyDb), { name: 'payments' })),
  emptySandbox: await inspect(fromSandbox(empty)),
};
try {
  const all = process.argv.indexOf('--all');
  const target = process.argv[all + 1];
  if (all > 0 && target !== undefined) {
    await mkdir(target, { recursive: true });
    const refused = sandbox.attempts().find(({ response }) => response?.status === 401)?.eventId;
    const injected = sandbox.attempts().findLast(({ faults }) => faults.length > 0)?.eventId;
    const { inbox, sandbox: world, emptyInbox, emptySandbox } = servers;
    await shoot(browser, target, [
      ['inbox-overview', inbox.url],
      ['inbox-events', `${inbox.url}/?view=events`],
      [
        'inbox-requeue',
        `${inbox.url}/?view=events&state=dead`,
        async (page) => {
          await page.getByRole('button', { name: /^Requeue/ }).click();
          await page.getByText('Dry run: 9').waitFor();
        },
      ],
      [
        'inbox-event',
        `${inbox.url}/?view=events&event=evt_lapsed`,
        (page) => page.getByRole('button', { name: 'Show the body' }).click(),
      ],
      ['inbox-coverage', `${inbox.url}/?view=coverage`],
      ['sandbox-overview', world.url],
      [
        'sandbox-events',
        `${world.url}/?view=events`,
        (page) =>
          page
            .getByRole('button', { name: /attempts of/ })
            .first()
            .click(),
      ],
      [
        'sandbox-event',
        `${world.url}/?view=events&event=${refused}`,
        (page) => page.locator('.bytes').first().waitFor(),
      ],
      [
        'sandbox-injected',
        `${world.url}/?view=events&event=${injected}`,
        (page) => page.locator('.bytes').first().waitFor(),
      ],
      ['sandbox-world', `${world.url}/?view=sandbox`],
      [
        'sandbox-wallet',
        `${world.url}/?view=sandbox`,
        (page) => page.getByRole('button', { name: 'Create a wallet …' }).click(),
      ],
      ['empty-overview', emptyInbox.url],
      ['empty-events', `${emptyInbox.url}/?view=events`],
      ['empty-coverage', `${emptyInbox.url}/?view=coverage`],
      ['empty-sandbox', `${emptySandbox.url}/?view=sandbox`],
      ['filtered-none', `${inbox.url}/?view=events&id=nothing_like_this`],
    ]);
  } else {
    const context = await browser.newContext({ viewport: { width: 1200, height: 750 }, timezoneId: 'UTC' });
    const page = await context.newPage();
    await page.goto(`${servers.inbox.url}/?view=overview`);
    await page.getByText('Needs you:').waitFor();
    await page.screenshot({ path: README });
  }
} finally {
  await browser.close();
  for (const server of Object.values(servers)) await server[Symbol.asyncDispose]();
  await Promise.all([sandbox.close(), empty.close()]);
  db.close();
  emptyDb.close();
  await rm(folder, { recursive: true });
}
// The streams of closed pages would keep the process alive.
process.exit();
