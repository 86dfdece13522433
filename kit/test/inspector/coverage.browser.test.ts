import {
  createPoller,
  POLL_NOTE,
  type PollState,
  readPollState,
  type StoredGap,
  writePollState,
} from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { exampleEvent } from 'stablehooks/testing';
import { afterEach, expect, test } from 'vitest';
import { SILENT } from '../service.js';
import { useBrowser } from './browser.js';
import { type InspectedApp, startInspectedApp } from './inspected-inbox.js';

const HOUR = 3_600_000;
const { open, closePages } = useBrowser();
const apps: InspectedApp[] = [];
afterEach(async () => {
  await closePages();
  for (const app of apps.splice(0)) await app[Symbol.asyncDispose]();
});

async function startApp(...args: Parameters<typeof startInspectedApp>): Promise<InspectedApp> {
  const app = await startInspectedApp(...args);
  apps.push(app);
  return app;
}

/** Saves what a poll would: proven from ten hours ago up to one hour ago, except in the gaps. */
async function savePoll(app: InspectedApp, gaps: readonly StoredGap[]): Promise<void> {
  const { oldest } = await readPollState(app.inbox);
  const now = Date.now();
  const polled: PollState = {
    since: now - 10 * HOUR,
    watermark: now - HOUR,
    limit: 50,
    oldest,
    gaps,
  };
  expect(await writePollState(app.inbox, polled)).toBe(true);
}

function gap(): StoredGap {
  const from = Date.now() - 5 * HOUR;
  return {
    from,
    until: { 'transfer.settled': from + HOUR },
    reason: 'not-reached',
    openedAt: from + HOUR,
    acknowledged: null,
  };
}

test('before the first poll nothing is called proven', async () => {
  const app = await startApp();
  await app.receiver.accept(exampleEvent('transfer.settled'), 'push');
  const { page, errors } = await open(`${app.url}/?view=coverage`);
  await page.getByText("Nothing is proven yet: no poll has read the service's event list.").waitFor();
  await page.getByText(/^Gaps are unknown until the first poll\./).waitFor();
  expect(await page.locator('main').innerText()).not.toMatch(/proven up to|gaps 0/i);
  expect(errors).toEqual([]);
});

test('a poll that proves something changes the words, which name the time that is not proven', async () => {
  const app = await startApp();
  const { page } = await open(`${app.url}/?view=coverage`);
  await page.getByText('Nothing is proven yet').waitFor();
  await savePoll(app, []);
  await page.getByText(/Proven up to .*\d/).waitFor();
  await page.getByText('That was 1 h ago. Nothing after that time is proven.').waitFor();
  await page.getByText('There are no gaps between the start date and the watermark.').waitFor();
});

test('after a poll that proved nothing, nothing is green', async () => {
  const app = await startApp();
  const since = Date.now() - HOUR;
  const first = { since, watermark: since, gaps: [], limit: 50, oldest: null };
  await writePollState(app.inbox, { ...first, lastAttempt: { at: since } });
  const { page } = await open(`${app.url}/?view=coverage`);
  await page
    .getByText('Nothing is proven yet: the poller has not been reading the event list for lagMs yet.')
    .waitFor();
  expect(await page.locator('.verdict-good').count()).toBe(0);
  expect(await page.locator('main').innerText()).not.toMatch(/proven up to/i);
});

test('a poll that fails shows what it reported, its problems and when', async () => {
  const app = await startApp();
  const client = createClient({
    baseUrl: 'https://service.example',
    token: 'token',
    retries: 0,
    fetch: async () => new Response(null, { status: 503 }),
  });
  const poller = createPoller({ client, receiver: app.receiver, logger: SILENT });
  const { page } = await open(`${app.url}/?view=coverage`);
  await page.getByText('Nothing is proven yet').waitFor();
  const report = await poller.pollOnce();
  const [problem] = report.problems;
  if (problem === undefined) throw new Error('The poll had no problem.');
  app.polled = { report, at: Date.parse('2026-01-02T03:04:05Z') };
  await page.getByText(report.diagnosis).waitFor();
  await page.locator('time[datetime="2026-01-02T03:04:05.000Z"]').waitFor();
  await page.getByRole('list', { name: 'Problems of the last poll' }).getByText(problem.message).waitFor();
  await page.getByText('Nothing is proven yet').waitFor();
});

test('gaps are drawn at least 12 pixels wide, in the lanes of their types, and lead to their cards', async () => {
  const app = await startApp();
  const short = gap();
  await savePoll(app, [{ ...short, until: { 'transfer.settled': short.from + 1_000 } }]);
  const { page, errors } = await open(`${app.url}/?view=coverage`);
  const drawn = page.getByRole('link', { name: /: open gap 1$/ });
  await drawn.waitFor();
  expect(await drawn.count()).toBe(1);
  expect(await drawn.getAttribute('aria-label')).toBe('transfer.settled: open gap 1');
  expect((await drawn.boundingBox())?.width).toBeGreaterThanOrEqual(12);
  await drawn.click();
  await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('gap-0');
  expect(errors).toEqual([]);
});

test('a gap shows its types, its span and why, and is acknowledged with a name and a reason', async () => {
  const app = await startApp();
  await savePoll(app, [gap()]);
  const { page } = await open(`${app.url}/?view=coverage`);
  await page.getByText(/, except in 1 open gap\.$/).waitFor();
  const item = page.getByRole('listitem').filter({ hasText: 'transfer.settled' });
  await item.getByText(/may be missing/).waitFor();
  await item.getByRole('button', { name: 'Acknowledge gap 1 …' }).click();
  const dialog = page.getByRole('dialog', { name: 'Acknowledge gap 1' });
  // Without a reason the browser does not submit it.
  await dialog.getByLabel('Your name').fill('Ada');
  await dialog.getByRole('button', { name: 'Acknowledge gap 1' }).click();
  expect((await readPollState(app.inbox)).gaps).toMatchObject([{ acknowledged: null }]);
  await dialog.getByLabel('Reason').fill('The books agree.');
  await dialog.getByRole('button', { name: 'Acknowledge gap 1' }).click();
  await page.getByText('Gap 1 is acknowledged.').waitFor();
  await item.getByText(/Acknowledged by Ada at .*: The books agree\.$/).waitFor();
  await page.getByText('1 gap is acknowledged but not proven.').waitFor();
  expect((await readPollState(app.inbox)).gaps).toMatchObject([
    { acknowledged: { by: 'Ada', reason: 'The books agree.' } },
  ]);
  expect(await item.getByRole('button').count()).toBe(0);
});

test('a gap that a poll makes longer while it is acknowledged keeps the form, and the new part stays open', async () => {
  const app = await startApp();
  const short = gap();
  await savePoll(app, [short]);
  const { page } = await open(`${app.url}/?view=coverage`);
  await page.getByRole('button', { name: 'Acknowledge gap 1 …' }).click();
  const dialog = page.getByRole('dialog', { name: 'Acknowledge gap 1' });
  await dialog.getByLabel('Your name').fill('Ada');
  const longer = { 'transfer.settled': short.from + 2 * HOUR };
  await savePoll(app, [{ ...short, until: longer }]);
  const shown = (time: number) => page.locator(`h4 time[datetime="${new Date(time).toISOString()}"]`);
  await shown(short.from + 2 * HOUR).waitFor({ state: 'attached' });
  expect(await dialog.getByLabel('Your name').inputValue()).toBe('Ada');
  await dialog.getByLabel('Reason').fill('The books agree.');
  await dialog.getByRole('button', { name: 'Acknowledge gap 1' }).click();
  await page.getByText('Gap 1 is acknowledged.').waitFor();
  expect((await readPollState(app.inbox)).gaps).toMatchObject([
    { until: short.until, acknowledged: { by: 'Ada' } },
    { until: longer, acknowledged: null },
  ]);
});

test('a line of the command ends between two words only', async () => {
  const app = await startApp();
  await savePoll(app, [gap()]);
  const { page } = await open(`${app.url}/?view=coverage`, { viewport: { width: 768, height: 1024 } });
  const command = page.getByText(/^stablehooks reconcile/);
  await command.waitFor();
  const lines = await command.evaluate((element) => {
    const words = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const found: number[] = [];
    for (let node = words.nextNode(); node !== null; node = words.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(node);
      if (node.textContent?.trim() !== '') found.push(range.getClientRects().length);
    }
    return found;
  });
  expect(new Set(lines)).toEqual(new Set([1]));
});

test('a gap that cannot be acknowledged while a poll runs stays open, and the page says so', async () => {
  const app = await startApp();
  await savePoll(app, [gap()]);
  const { page } = await open(`${app.url}/?view=coverage`);
  await page.getByRole('button', { name: 'Acknowledge gap 1 …' }).click();
  await app.inbox.leaseNote(POLL_NOTE, { holder: 'a poll', leaseMs: HOUR });
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Your name').fill('Ada');
  await dialog.getByLabel('Reason').fill('The books agree.');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByText('The gap was not acknowledged').waitFor();
  await page.getByRole('listitem').getByText('open', { exact: true }).waitFor();
});
