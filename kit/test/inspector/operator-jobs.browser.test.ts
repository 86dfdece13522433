/** The jobs of an operator on a large inbox, by clicks and seconds: 100,000 events at night, fewer otherwise. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { atNight } from '../../../test/nightly.js';
import { useBrowser } from './browser.js';
import { type InspectedApp, startInspectedApp } from './inspected-inbox.js';
import { DEAD, fillPayments } from './payments.js';

const EVENTS = atNight(100_000, 3_000);
const { open } = useBrowser();
let app: InspectedApp;
beforeAll(async () => {
  app = await startInspectedApp();
  await fillPayments(app.db, EVENTS);
});
afterAll(() => app[Symbol.asyncDispose]());

/** Does a job from the overview on, and prints how many clicks and seconds it took, typing and pasting included. */
async function measure(
  job: string,
  work: (
    page: Page,
    click: (name: string | RegExp, role?: 'link' | 'searchbox') => Promise<void>,
  ) => Promise<unknown>,
): Promise<number> {
  const begun = performance.now();
  const { page, errors, context } = await open(app.url, { timezoneId: 'UTC' });
  let clicks = 0;
  await page.getByText('Needs you: dead').waitFor();
  await work(page, async (name, role) => {
    clicks += 1;
    const named = role === undefined ? page.getByRole('button', { name }) : page.getByRole(role, { name });
    await named.first().click();
  });
  const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
  console.log(
    `${EVENTS.toLocaleString('en')} events, ${job}: ${clicks} clicks, ${seconds} s with opening the page.`,
  );
  expect(errors).toEqual([]);
  await context.close();
  return clicks;
}

const FIND = /^Find an event/;

test('each job of an operator takes few clicks', async () => {
  const jobs = {
    'is it healthy': await measure('is it healthy', (page) =>
      page
        .getByRole('region', { name: 'Proven' })
        .getByText(/behind/)
        .waitFor(),
    ),
    'what was refused in the last hour, and why': await measure('what was refused, and why', (page) =>
      page
        .getByRole('region', { name: 'What needs you' })
        .getByText(/3 signed deliveries were refused.*ERR_SIGNATURE_MISMATCH: the secret/)
        .waitFor(),
    ),
    'why did an event fail, and what was sent': await measure(
      'why did an event fail, and what was sent',
      async (page, click) => {
        await click(FIND, 'searchbox');
        await page.keyboard.insertText(`${DEAD.id}\n`);
        await page.keyboard.press('Enter');
        await page
          .getByText(/^Dead after 8 attempts: .* is closed/)
          .first()
          .waitFor();
        await page.getByRole('textbox', { name: 'Body' }).waitFor();
      },
    ),
    'where is a movement': await measure('where is a movement', async (page, click) => {
      await click(FIND, 'searchbox');
      await page.keyboard.insertText(DEAD.movement);
      await page.keyboard.press('Enter');
      await page.getByRole('list', { name: 'Events of the movement' }).getByText(DEAD.id).waitFor();
      await page
        .getByText(
          /^(The service's event list is proven complete until|It is not proven that every later event)/,
        )
        .waitFor();
    }),
    "rerun yesterday's dead of one type and error": await measure(
      "rerun yesterday's dead of one type and error",
      async (page, click) => {
        const row = page.getByRole('row', { name: /account … is closed/ });
        await row.waitFor();
        await click('transfer.settled', 'link');
        await click('Yesterday');
        await click(/^Requeue \d+ …/);
        await click(/^Requeue [\d,]+ events?$/);
        await page
          .locator('.notice')
          .getByText(/requeued: due now/)
          .waitFor();
      },
    ),
  };
  expect(Object.values(jobs)).toEqual([0, 0, 1, 1, 4]);
});
