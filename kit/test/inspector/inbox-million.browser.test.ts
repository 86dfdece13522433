import { exampleEvent } from 'stablehooks/testing';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { useBrowser } from './browser.js';
import { type InspectedApp, startInspectedApp } from './inspected-inbox.js';

const EVENTS = 1_000_000;
const { open, closePages } = useBrowser();
let app: InspectedApp;

beforeAll(async () => {
  app = await startInspectedApp();
  // As `record` writes them, without a round trip for each page.
  app.db.exec(`
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${EVENTS})
    INSERT INTO stablehooks_events (id, type, source, event, received_at, updated_at, due_at, state, attempts)
    SELECT printf('evt_%07d', n), 'transfer.settled', 'push',
      json_set('${JSON.stringify(exampleEvent('transfer.settled'))}', '$.id', printf('evt_%07d', n)),
      1760000000000 + n / 3, 1760000000000 + n / 3, 1760000000000 + n / 3, 'received', 0
    FROM numbers`);
});
afterEach(closePages);
afterAll(() => app[Symbol.asyncDispose]());

test('the events of a million are the ones that an inbox records', async () => {
  const recorded = exampleEvent('transfer.settled', { id: 'evt_0500000' });
  await app.inbox.record([{ ...recorded, id: 'evt_recorded' }], { origin: 'push', dueInMs: 0 });
  const [own, inserted] = await Promise.all([app.inbox.find('evt_recorded'), app.inbox.find('evt_0500000')]);
  const { receivedAt, updatedAt, dueAt, ...rest } = own ?? {};
  expect(inserted).toMatchObject({ ...rest, id: 'evt_0500000', event: recorded });
  expect([updatedAt, dueAt]).toEqual([receivedAt, receivedAt]);
  app.db.exec("DELETE FROM stablehooks_events WHERE id = 'evt_recorded'");
});

test('an inbox of one million events shows its first rows within a second', async () => {
  const times: number[] = [];
  for (let run = 0; run < 5; run += 1) {
    const { page } = await open('about:blank');
    await page.addInitScript(() => {
      const observer = new MutationObserver(() => {
        if (document.querySelectorAll('.inbox-list a').length < 10) return;
        observer.disconnect();
        // After the frame that paints them.
        requestAnimationFrame(() => setTimeout(() => performance.mark('rows')));
      });
      observer.observe(document, { childList: true, subtree: true });
    });
    await page.goto(app.url);
    await page.waitForFunction(() => performance.getEntriesByName('rows').length > 0);
    times.push(await page.evaluate(() => performance.getEntriesByName('rows')[0]?.startTime ?? Number.NaN));
    console.log(
      times.at(-1),
      await page.evaluate(() =>
        performance
          .getEntriesByType('resource')
          .concat(performance.getEntriesByType('navigation'))
          .map((e) =>
            [
              e.name.replace(/.*\/(?=api|assets)/, ''),
              Math.round(e.startTime),
              Math.round((e as PerformanceResourceTiming).responseStart),
              Math.round((e as PerformanceResourceTiming).responseEnd),
            ].join(' '),
          )
          .join('\n'),
      ),
    );
  }
  expect(Math.min(...times)).toBeLessThanOrEqual(1_000);
});
