import { getRequestListener } from '@hono/node-server';
import { memoryInbox } from 'stablehooks';
import { createInspector } from 'stablehooks-kit/inspector';
import { afterEach, expect, test } from 'vitest';
import { serve } from '../http-server.js';
import { useBrowser } from './browser.js';

const { open, closePages } = useBrowser();
afterEach(closePages);

test('the page shows the views that its source has', async () => {
  const inspector = createInspector({
    source: {
      name: 'inbox of the test',
      inbox: { operations: memoryInbox() },
      subscribe: () => () => undefined,
    },
    authorize: () => true,
  });
  await using server = await serve(getRequestListener(inspector.fetch));
  const { page, errors } = await open(server.url);
  await page.getByRole('link', { name: 'Coverage' }).click();
  await page.getByRole('heading', { name: 'Coverage' }).waitFor();
  expect(await page.getByRole('navigation').getByRole('link').allInnerTexts()).toEqual(['Inbox', 'Coverage']);
  expect(new URL(page.url()).search).toBe('?view=coverage');
  expect(errors).toEqual([]);
  inspector.close();
});
