/** The errors of the overview: causes instead of events. */
import { exampleEvent } from 'stablehooks/testing';
import { afterEach, expect, test } from 'vitest';
import { fail } from '../inbox-states.js';
import { findViolations, NARROW, useBrowser, WIDE } from './browser.js';
import { type InspectedApp, startInspectedApp } from './inspected-inbox.js';

const { open, closePages } = useBrowser();
const apps: InspectedApp[] = [];
afterEach(async () => {
  await closePages();
  for (const app of apps.splice(0)) await app[Symbol.asyncDispose]();
});

test.for([WIDE, NARROW])(
  'errors are grouped, shown and requeued by their cause at $width pixels',
  async (viewport) => {
    const app = await startInspectedApp();
    apps.push(app);
    for (const [index, error] of ['503 for trf_1', '503 for trf_2', '404 for trf_3'].entries()) {
      const event = exampleEvent('transfer.settled', { id: `evt_${index}` });
      await fail(app.inbox, event, { error: `ERR_HANDLER_FAILED: bank answered ${error}` });
    }
    const { page, errors } = await open(`${app.url}/?view=overview`, { viewport });
    const first = page.getByRole('region', { name: 'Errors' }).getByRole('row').nth(1);
    await first.getByText('ERR_HANDLER_FAILED: bank answered 503 for …').waitFor();
    await first.getByRole('cell', { name: '2', exact: true }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(viewport.width);

    await first.getByRole('button', { name: 'Requeue these …' }).click();
    await page.getByRole('button', { name: 'Requeue 2 events' }).click();
    await expect
      .poll(async () => (await app.inbox.list({ state: 'dead', limit: 9 })).map(({ id }) => id))
      .toEqual(['evt_2']);
    await first.getByText('ERR_HANDLER_FAILED: bank answered 404 for …').waitFor();
    await first.getByRole('link', { name: 'Show' }).click();
    await page.getByRole('link', { name: 'evt_2' }).waitFor();
    expect(errors).toEqual([]);
  },
);
