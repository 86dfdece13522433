import type { Response } from 'playwright-core';
import type { UnknownEvent } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { findViolations, NARROW, useBrowser, WIDE } from './browser.js';
import { giveUp, type InspectedApp, startInspectedApp } from './inspected-inbox.js';

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

function eventOf(id: string, payload = {}): UnknownEvent {
  return exampleEvent('transfer.settled', { id, payload: { note: 'a payload', ...payload } });
}

/** Delivers events whose handler gives up, so that they are dead. */
async function deliverDead(app: InspectedApp, events: readonly UnknownEvent[]): Promise<void> {
  app.work = giveUp;
  for (const event of events) await app.receiver.accept(event, 'push');
  app.work = () => undefined;
}

test('the state that needs a person is opened first, with how many there are of each', async () => {
  const app = await startApp();
  await app.receiver.accept(eventOf('evt_done'), 'push');
  await deliverDead(app, [eventOf('evt_dead')]);
  await app.inbox.record([eventOf('evt_parked')], { origin: 'pull', dueInMs: null });
  const { page, errors } = await open(app.url);
  const row = page.getByRole('row').filter({ hasText: 'evt_dead' });
  await row.getByText('the account was closed').waitFor();
  await expect.poll(() => new URL(page.url()).search).toBe('?state=dead');
  const states = page.getByRole('navigation', { name: 'States' }).getByRole('link');
  await expect
    .poll(async () => (await states.allInnerTexts()).map((text) => text.replace(/\s+(oldest.*|–)$/, '')))
    .toEqual(['dead 1', 'failed 0', 'leased 0', 'received 0', 'parked 1', 'done 1']);
  expect(await states.first().innerText()).toMatch(/oldest \d+ (s|min)$/);
  await states.filter({ hasText: 'parked' }).click();
  await page.getByRole('link', { name: 'evt_parked' }).waitFor();
  await expect.poll(() => new URL(page.url()).search).toBe('?state=parked');
  await page.reload();
  await page.getByRole('link', { name: 'evt_parked' }).waitFor();
  expect(errors).toEqual([]);
});

test('an empty inbox is said to be empty, and shows the first event that comes', async () => {
  const app = await startApp();
  const { page } = await open(app.url);
  await page.getByText('The inbox has no events yet.').waitFor();
  await app.receiver.accept(eventOf('evt_first'), 'push');
  await page.getByRole('link', { name: 'evt_first' }).waitFor();
});

test('an event shows its attempts with their errors', async () => {
  const app = await startApp();
  app.work = () => {
    throw new Error('the bank is closed');
  };
  await app.receiver.accept(eventOf('evt_1'), 'push');
  await app.inbox.requeue('evt_1');
  await deliverDead(app, [eventOf('evt_1')]);
  const { page } = await open(app.url);
  await page.getByRole('link', { name: 'evt_1' }).click();
  const detail = page.getByRole('region', { name: 'evt_1' });
  await expect
    .poll(() => detail.getByRole('listitem').allInnerTexts())
    .toEqual([
      expect.stringMatching(/^failed – started .*, ended .* ms\)\s+.*the bank is closed$/s),
      expect.stringMatching(/^dead – started .*the account was closed$/s),
    ]);
  await expect.poll(() => new URL(page.url()).searchParams.get('event')).toBe('evt_1');
});

test('an event shows its trace context if it has one, and the list does not transfer it', async () => {
  const app = await startApp();
  const how = { dueInMs: null, origin: 'push' } as const;
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  await app.inbox.record([eventOf('evt_traced')], { ...how, traceparent });
  await app.inbox.record([eventOf('evt_plain')], how);
  const { page } = await open(`${app.url}/?view=inbox&state=parked`, { viewport: NARROW });
  await page.getByRole('link', { name: 'evt_traced' }).click();
  const traced = page.getByRole('region', { name: 'evt_traced' });
  await traced.getByRole('term').filter({ hasText: 'Trace' }).waitFor();
  await traced.getByText(traceparent).waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  const list = await fetch(`${app.url}/api/inbox/events?state=parked`);
  expect(await list.text()).not.toContain('traceparent');
  await page.getByRole('link', { name: 'Close' }).click();
  await page.getByRole('link', { name: 'evt_plain' }).click();
  const plain = page.getByRole('region', { name: 'evt_plain' });
  await plain.getByRole('term').filter({ hasText: 'Attempts' }).waitFor();
  expect(await plain.getByRole('term').filter({ hasText: 'Trace' }).count()).toBe(0);
});

test('a retry that changes no count is shown in the list and in the open event', async () => {
  const app = await startApp();
  app.work = () => {
    throw new Error('the bank is closed');
  };
  await app.receiver.accept(eventOf('evt_older'), 'push');
  await app.receiver.accept(eventOf('evt_newer'), 'push');
  const { page } = await open(`${app.url}/?view=inbox&state=failed&event=evt_newer`);
  const detail = page.getByRole('region', { name: 'evt_newer' });
  const row = page.getByRole('row').filter({ hasText: 'evt_newer' });
  await detail.getByText('the bank is closed').first().waitFor();
  await row.getByText('the bank is closed').waitFor();
  // In one step, as another process would between two looks.
  app.db.exec(`UPDATE stablehooks_events SET last_error = '"the bank is gone"' WHERE id = 'evt_newer'`);
  await detail.getByText('the bank is gone').waitFor();
  await row.getByText('the bank is gone').waitFor();
});

test('a payload does not reach the browser before it is asked for', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt_1', { iban: 'DE02120300000000202051' })]);
  const { page, requests } = await open('about:blank');
  const answers: Response[] = [];
  page.on('response', (response) => {
    if (/\/api\/(?!stream)/.test(response.url())) answers.push(response);
  });
  await page.goto(app.url);
  await page.getByRole('link', { name: 'evt_1' }).click();
  const show = page.getByRole('button', { name: 'Show payload' });
  await show.waitFor();
  expect(requests).toContain('inbox/events/evt_1');
  const bodies = await Promise.all(answers.map((answer) => answer.text()));
  expect(bodies.join()).not.toContain('DE02120300000000202051');
  await show.click();
  await expect
    .poll(() => page.getByRole('textbox', { name: 'Payload' }).inputValue())
    .toContain('DE02120300000000202051');
});

test('a dead event is requeued: it is due, the page says so, and its row stays where it is', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt_1'), eventOf('evt_2')]);
  const { page } = await open(app.url);
  await page.getByRole('link', { name: 'evt_2' }).click();
  await page.getByRole('button', { name: 'Requeue' }).click();
  await page.getByText('evt_2 is due now, and its attempts count from 0.').waitFor();
  expect(await app.inbox.find('evt_2')).toMatchObject({ state: 'received', attempts: 0 });
  await page.getByRole('row').filter({ hasText: 'evt_2' }).getByText('No longer dead.').waitFor();
  expect(await page.getByRole('row').getByRole('link').allInnerTexts()).toEqual(['evt_2', 'evt_1']);
  await page.getByRole('region', { name: 'evt_2' }).getByText('received', { exact: true }).waitFor();
  await expect.poll(() => page.getByRole('button', { name: 'Requeue' }).count()).toBe(0);
});

test('an event that is no longer dead is not requeued, and the page says why', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt_1')]);
  const { page } = await open(`${app.url}/?event=evt_1`);
  const requeue = page.getByRole('button', { name: 'Requeue' });
  await requeue.waitFor();
  await page.route('**/api/actions/requeue', async (route) => {
    await app.inbox.requeue('evt_1');
    await route.continue();
  });
  await requeue.click();
  await page.getByText('The event was not requeued: it is received,').waitFor();
});

test('a dead event that is run now is handled, and one that fails again says how it ended', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt_1')]);
  const { page } = await open(`${app.url}/?event=evt_1`);
  const run = page.getByRole('button', { name: 'Run now' });
  app.work = giveUp;
  await run.click();
  await page.getByText('evt_1 failed for good. See its last error.').waitFor();
  app.work = () => undefined;
  await run.click();
  await page.getByText('evt_1 ran: its handler finished.').waitFor();
  expect(await app.inbox.find('evt_1')).toMatchObject({ state: 'done' });
  await expect.poll(() => run.count()).toBe(0);
});

test('the page says what becomes of an event that it runs without a handler', async () => {
  const app = await startApp();
  const unhandled = exampleEvent('accept.confirmed', { id: 'evt_unhandled' });
  const unknown = { ...unhandled, id: 'evt_unknown', type: 'ledger.closed' };
  await app.inbox.record([unhandled, unknown], { origin: 'push', dueInMs: 0 });
  const { page } = await open(`${app.url}/?event=evt_unhandled`);
  await page.getByRole('button', { name: 'Run now' }).click();
  await page
    .getByText('evt_unhandled is stored, and runs in a worker or in a process with a handler for its type.')
    .waitFor();
  await page.goto(`${app.url}/?event=evt_unknown`);
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByText('evt_unknown did not run: its type was unknown').waitFor();
});

test('a lease that has ended is told from one that holds', async () => {
  const app = await startApp();
  for (const [id, leaseMs] of [
    ['evt_stopped', 1],
    ['evt_running', HOUR],
  ] as const) {
    await app.inbox.record([eventOf(id)], { origin: 'push', dueInMs: 0 });
    await app.inbox.claim(eventOf(id), { leaseMs, origin: 'push' });
  }
  const { page } = await open(`${app.url}/?event=evt_running&state=leased`);
  await page.getByText('A process runs them, or has stopped before it finished').waitFor();
  await page.getByRole('term').filter({ hasText: 'Lease until' }).waitFor();
  expect(await page.getByRole('button', { name: 'Run now' }).count()).toBe(0);
  await page.getByRole('link', { name: 'evt_stopped' }).click();
  await page.getByRole('term').filter({ hasText: 'Lease ended' }).waitFor();
  await page.getByRole('button', { name: 'Run now' }).waitFor();
});

test('a failed event that is not due yet is run now', async () => {
  const app = await startApp();
  app.work = () => {
    throw new Error('the bank is closed');
  };
  await app.receiver.accept(eventOf('evt_1'), 'push');
  app.work = () => undefined;
  const { page } = await open(`${app.url}/?event=evt_1`);
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByText('evt_1 ran: its handler finished.').waitFor();
});

test('prune asks, does nothing when it is cancelled, and removes payloads and no ids', async () => {
  const app = await startApp();
  await app.receiver.accept(eventOf('evt_1'), 'push');
  const { page } = await open(`${app.url}/?event=evt_1`);
  await page.getByRole('button', { name: 'Show payload' }).waitFor();
  const dialog = page.getByRole('dialog', { name: 'Prune the inbox' });
  await page.getByRole('button', { name: 'Prune …' }).click();
  await dialog.getByText('Their ids stay').waitFor();
  await page.keyboard.press('Escape');
  await expect.poll(() => dialog.count()).toBe(0);
  expect((await app.inbox.find('evt_1'))?.event).not.toBeNull();
  await page.getByRole('button', { name: 'Prune …' }).click();
  await dialog.getByLabel('Done for more than this many days').fill('0');
  await dialog.getByRole('button', { name: 'Prune' }).click();
  await page.getByText('1 event was pruned.').waitFor();
  expect(await app.inbox.find('evt_1')).toMatchObject({ state: 'done', event: null });
  await page.getByText('It is pruned.').waitFor();
});

test('the page offers only the actions that the app allows', async () => {
  const app = await startApp([]);
  await deliverDead(app, [eventOf('evt_1')]);
  const { page } = await open(`${app.url}/?event=evt_1`);
  await page.getByRole('button', { name: 'Show payload' }).waitFor();
  expect(await page.getByRole('button').allInnerTexts()).toEqual(['Find', 'Show payload']);
});

test.each([{ viewport: WIDE }, { viewport: NARROW }])(
  'new events do not move the rows that one reads at $viewport.width px, and are shown on demand',
  async (options) => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_1'), eventOf('evt_2')]);
    const { page } = await open(app.url, options);
    const row = page.getByRole('row').filter({ hasText: 'evt_1' });
    await page.getByRole('link', { name: 'evt_1' }).waitFor();
    // The counts above the list have come, too.
    await page
      .getByText(/^oldest/)
      .first()
      .waitFor();
    const before = await row.boundingBox();
    await deliverDead(app, [eventOf('evt_3')]);
    await page.getByText('1 new.').waitFor();
    expect(await row.boundingBox()).toEqual(before);
    await page.getByRole('button', { name: 'Read the list again' }).click();
    await page.getByRole('link', { name: 'evt_3' }).waitFor();
    expect(await page.getByRole('row').getByRole('link').allInnerTexts()).toEqual([
      'evt_3',
      'evt_2',
      'evt_1',
    ]);
  },
);

test('an event is found by its id, and an unknown id is told', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt/1 ?%')]);
  const { page } = await open(app.url);
  const id = page.getByLabel('Id of an event');
  await id.fill('evt/1 ?%');
  await id.press('Enter');
  await page.getByRole('region', { name: 'evt/1 ?%' }).getByText('transfer.settled').waitFor();
  await id.fill('evt_unknown');
  await id.press('Enter');
  await page.getByText('The inbox has no event with this id.').waitFor();
});

test('a lost inbox is shown with the time since when, in each tab, and the page goes on after it', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt_1')]);
  const { page, context } = await open(app.url);
  await page.getByRole('link', { name: 'evt_1' }).waitFor();
  app.loseTable();
  const banner = page.getByText(/^app\.db cannot be read since .*\d:\d\d/);
  await banner.waitFor();
  await page.getByRole('link', { name: 'evt_1' }).waitFor();
  const second = await open(app.url, { context });
  await second.page.getByText(/^app\.db cannot be read since/).waitFor();
  app.restoreTable();
  await banner.waitFor({ state: 'detached' });
  await app.inbox.requeue('evt_1');
  await page.getByText('No longer dead.').waitFor();
  await second.page.getByText(/cannot be read since/).waitFor({ state: 'detached' });
});

test('the view is used by keyboard alone, and the focus returns to the row', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt_1')]);
  const { page } = await open(app.url);
  await page.getByRole('link', { name: 'evt_1' }).waitFor();
  async function tabTo(name: string | RegExp): Promise<void> {
    const target = page.getByRole('link', { name }).or(page.getByRole('button', { name })).first();
    for (let presses = 0; presses < 40; presses += 1) {
      if (await target.evaluate((element) => element === document.activeElement)) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`The focus did not reach ${name}.`);
  }
  await tabTo('evt_1');
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: 'evt_1' }).waitFor();
  await tabTo('Close');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('evt_1');
  await page.keyboard.press('Enter');
  await tabTo('Run now');
  await page.keyboard.press('Enter');
  await page.getByText('evt_1 ran: its handler finished.').waitFor();
});

test('ids, types and errors with markup and hidden characters are shown as text', async () => {
  const app = await startApp();
  const id = '<img src=x onerror=alert(1)>\u202e\u0007';
  // Straight into the store: a receiver refuses an id with control characters.
  const event = eventOf(id, { text: '</textarea><script>alert(1)</script>\u202e' });
  const claim = await app.inbox.claim(event, { leaseMs: 60_000, origin: 'push' });
  if (claim.state !== 'claimed') throw new Error(claim.state);
  const error = '<script>alert(1)</script>\u2066 javascript:alert(1)';
  await app.inbox.fail(claim.lease, { retryAfterMs: 60_000, error });
  const { page, errors } = await open(app.url);
  let dialogs = 0;
  page.on('dialog', () => (dialogs += 1));
  await page.getByRole('link', { name: '<img src=x onerror=alert(1)>\\u{202e}\\u{7}' }).click();
  await page.getByRole('button', { name: 'Show payload' }).click();
  await expect
    .poll(() => page.getByRole('textbox', { name: 'Payload' }).inputValue())
    .toContain('</textarea><script>alert(1)</script>\\u{202e}');
  expect(await page.locator('main img, main script').count()).toBe(0);
  expect(await page.locator('main').innerText()).not.toMatch(/\p{Cf}/u);
  expect(dialogs).toBe(0);
  expect(errors).toEqual([]);
});

describe.each([
  { viewport: WIDE, colorScheme: 'light' },
  { viewport: WIDE, colorScheme: 'dark' },
  { viewport: NARROW, colorScheme: 'light' },
  { viewport: NARROW, colorScheme: 'dark' },
] as const)('at $viewport.width px, $colorScheme', (options) => {
  test('list and event fit, and axe finds nothing', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf(`evt_${'long'.repeat(60)}`), eventOf('evt_1')]);
    const { page } = await open(app.url, options);
    const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    await page.getByRole('link', { name: 'evt_1', exact: true }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    expect(await overflow()).toBeLessThanOrEqual(0);
    await page.getByRole('link', { name: 'evt_longlong' }).click();
    await page.getByRole('button', { name: 'Show payload' }).click();
    await page.getByRole('textbox', { name: 'Payload' }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    expect(await overflow()).toBeLessThanOrEqual(0);
    await page.getByRole('link', { name: 'Close' }).click();
    await page.getByRole('link', { name: 'evt_1', exact: true }).click();
    await page.getByRole('region', { name: 'evt_1', exact: true }).waitFor();
  });
});
