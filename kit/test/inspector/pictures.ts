/**
 * Draws the pictures of the docs, in light and dark, or every view in four sizes:
 * `npm run picture`, or `npm run picture -- --all FOLDER`.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import Database from 'libsql';
import { type Browser, chromium, type Page } from 'playwright-core';
import sharp from 'sharp';
import { EVENT_TYPES } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { createInspector, fromInbox, fromSandbox, type InspectorSource } from 'stablehooks-kit/inspector';
import { createSandbox, type Sandbox } from 'stablehooks-kit/sandbox';
import { ACTION_NAMES } from '../../src/inspector/handler.js';
import { serve } from '../http-server.js';
import { DEAD, fillPayments } from './payments.js';

const SIZES = [
  { width: 390, height: 844 },
  { width: 768, height: 1024 },
  { width: 1440, height: 900 },
  { width: 1920, height: 1080 },
];
const IMAGES = fileURLToPath(new URL('../../../docs/images/', import.meta.url));

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

const showsProof = (page: Page) => page.locator('.lanes').waitFor();

type Shot = readonly [name: string, url: string, prepare?: (page: Page) => Promise<unknown>];

async function shoot(
  browser: Browser,
  { folder, sizes }: { readonly folder: string; readonly sizes: typeof SIZES },
  shots: readonly Shot[],
): Promise<void> {
  for (const viewport of sizes) {
    for (const colorScheme of ['light', 'dark'] as const) {
      const context = await browser.newContext({ viewport, colorScheme, timezoneId: 'UTC' });
      for (const [name, url, prepare] of shots) {
        const page = await context.newPage();
        await page.goto(url);
        await page.getByText('Loading …').first().waitFor({ state: 'detached' });
        await page.locator('.verdict, .rows, .empty, .faults').first().waitFor();
        await prepare?.(page);
        const size = sizes.length === 1 ? '' : `-${viewport.width}`;
        // 128 colours are enough for text and areas, and take a third of the bytes.
        const png = sharp(await page.screenshot()).png({
          palette: true,
          colours: 128,
          dither: 0,
          effort: 10,
        });
        await png.toFile(join(folder, `${name}${size}-${colorScheme}.png`));
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
  inbox: await inspect(fromInbox(await fillPayments(db, 1_000), { name: 'payments', run })),
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
    await shoot(browser, { folder: target, sizes: SIZES }, [
      ['inbox-overview', inbox.url, showsProof],
      ['inbox-events', `${inbox.url}/?view=events`],
      [
        'inbox-requeue',
        `${inbox.url}/?view=events&state=dead`,
        async (page) => {
          await page.getByRole('button', { name: /^Requeue/ }).click();
          await page.getByText('Dry run: ').nth(0).waitFor();
        },
      ],
      ['inbox-event', `${inbox.url}/?view=events&event=${DEAD.id}`],
      ['inbox-coverage', `${inbox.url}/?view=coverage`],
      ['sandbox-overview', world.url],
      ['sandbox-events', `${world.url}/?view=events`],
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
      ['empty-overview', emptyInbox.url],
      ['empty-events', `${emptyInbox.url}/?view=events`],
      ['empty-coverage', `${emptyInbox.url}/?view=coverage`],
      ['empty-sandbox', `${emptySandbox.url}/?view=sandbox`],
      ['filtered-none', `${inbox.url}/?view=events&id=nothing_like_this`],
    ]);
  } else {
    const { url } = servers.inbox;
    await shoot(browser, { folder: IMAGES, sizes: [{ width: 1280, height: 800 }] }, [
      ['inspector-overview', url, showsProof],
      ['inspector-event', `${url}/?view=events&event=${DEAD.id}`],
      ['inspector-coverage', `${url}/?view=coverage`],
    ]);
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
