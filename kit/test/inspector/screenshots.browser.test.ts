/**
 * Writes a picture of each view to `kit/test/inspector/screenshots`, and with SCREENSHOTS=docs that of the README to
 * `docs/images`.
 */
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import { createReceiver, memoryInbox, PermanentError } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toNodeHandler } from 'stablehooks/node';
import { createInspector, fromInbox, fromSandbox } from 'stablehooks-kit/inspector';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { afterEach, expect, test } from 'vitest';
import { serve } from '../http-server.js';
import { NARROW, useBrowser, WIDE } from './browser.js';

const { open, closePages } = useBrowser();
afterEach(closePages);

const FOLDER = fileURLToPath(new URL('screenshots/', import.meta.url));
const README_PICTURE = fileURLToPath(new URL('../../../docs/images/inspector.png', import.meta.url));
/** What each view shows once it has loaded. */
const SHOWN = {
  deliveries: '.deliveries-rows tbody a',
  inbox: '.inbox-states small:has-text("oldest")',
  coverage: 'main img',
  service: 'main fieldset',
} as const;
const silent = { warn: () => undefined, error: () => undefined };

test('a picture of each view is written, wide and light, narrow and dark', async () => {
  await mkdir(FOLDER, { recursive: true });
  const inbox = memoryInbox({ logger: silent });
  let runs = 0;
  const handle = () => {
    runs += 1;
    if (runs % 7 === 0) throw new Error('The ledger is locked.');
    if (runs % 23 === 0) throw new PermanentError('The wallet is closed.');
  };
  const receiver = createReceiver({
    secret: 'sandbox-secret',
    inbox,
    logger: silent,
    handlers: { 'accept.confirmed': handle, 'transfer.settled': handle, 'redeem.completed': handle },
    onOutcome: () => undefined,
  });
  await using app = await serve(toNodeHandler(receiver));
  const sandbox = createSandbox({
    seed: 7,
    endpoints: [{ url: `${app.url}/hooks` }],
    faults: { reserialise: 0.12, drop: 0.05 },
    retryBaseMs: 50,
  });
  const client = createClient({
    baseUrl: 'http://sandbox.test',
    token: sandbox.token,
    fetch: (url, init) => sandbox.fetch(new Request(url, init)),
  });
  const poller = createPoller({ client, receiver, logger: silent, since: new Date(Date.now() - 3_600_000) });
  sandbox.wallets.create({ agentId: 'treasury', chain: 'solana', limits: { perTx: '500', daily: '2000' } });
  for (let round = 0; round < 25; round += 1) {
    sandbox.accept();
    sandbox.transfer();
    if (round % 3 === 0) sandbox.redeem();
  }
  await sandbox.settled();
  const last = { report: await poller.pollOnce(), at: Date.now() };
  const inspector = createInspector({
    source: {
      ...fromSandbox(sandbox),
      inbox: fromInbox(inbox, { name: 'app', lastReport: () => last }).inbox,
    },
    actions: ['resend', 'requeue', 'prune', 'acknowledge-gap', 'fire', 'set-faults', 'advance-clock'],
    authorize: () => true,
  });
  await using server = await serve(getRequestListener(inspector.fetch));

  for (const [look, options] of [
    ['wide', { viewport: WIDE, colorScheme: 'light' }],
    ['narrow', { viewport: NARROW, colorScheme: 'dark' }],
  ] as const) {
    const { page, errors } = await open(server.url, { ...options, timezoneId: 'UTC', locale: 'en-GB' });
    for (const view of ['deliveries', 'inbox', 'coverage', 'service'] as const) {
      await page.goto(`${server.url}/?view=${view}`);
      await page.locator(SHOWN[view]).first().waitFor();
      if (view === 'deliveries') {
        // The list alone, with its charts.
        await page.evaluate(() => document.querySelector('details')?.setAttribute('open', ''));
        await page.locator('canvas').nth(1).waitFor();
        await page.screenshot({ path: `${FOLDER}list-${look}.png`, animations: 'disabled' });
        await page.getByText('ERR_SIGNATURE_MISMATCH').first().click();
        await page.getByText('does not match because of').first().waitFor();
      }
      const picture = await page.screenshot({ path: `${FOLDER}${view}-${look}.png`, animations: 'disabled' });
      expect(picture.length).toBeGreaterThan(10_000);
      if (process.env['SCREENSHOTS'] === 'docs' && view === 'deliveries' && look === 'wide') {
        await page.setViewportSize({ width: 1200, height: 720 });
        await page.screenshot({ path: README_PICTURE, animations: 'disabled' });
        await page.setViewportSize(options.viewport);
      }
      // No view scrolls sideways.
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(options.viewport.width);
    }
    expect(errors).toEqual([]);
  }
  inspector.close();
  await sandbox.close();
});
