import type { Response } from 'playwright-core';
import { exampleEvent } from 'stablehooks/testing';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { atNight } from '../../../test/nightly.js';
import { useBrowser } from './browser.js';
import { type InspectedApp, startInspectedApp } from './inspected-inbox.js';

/** More than the overview looks through. */
const EVENTS = atNight(1_000_000, 200_000);
const { open, closePages } = useBrowser();
let app: InspectedApp;

beforeAll(async () => {
  app = await startInspectedApp();
  insertEvents(app, EVENTS);
});

/** Inserts events as `record` writes them, without a round trip for each page. */
function insertEvents({ db }: InspectedApp, count: number): void {
  db.exec(`
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})
    INSERT INTO stablehooks_events (id, type, source, event, received_at, updated_at, due_at, state, attempts)
    SELECT printf('evt_%07d', n), 'transfer.settled', 'push',
      json_set('${JSON.stringify(exampleEvent('transfer.settled'))}', '$.id', printf('evt_%07d', n)),
      1760000000000 + n / 3, 1760000000000 + n / 3, 1760000000000 + n / 3, 'received', 0
    FROM numbers`);
}

afterEach(closePages);
afterAll(() => app[Symbol.asyncDispose]());

test('the inserted events are the ones that an inbox records', async () => {
  const recorded = exampleEvent('transfer.settled', { id: 'evt_0100000' });
  await app.inbox.record([{ ...recorded, id: 'evt_recorded' }], { origin: 'push', dueInMs: 0 });
  const [own, inserted] = await Promise.all([app.inbox.find('evt_recorded'), app.inbox.find('evt_0100000')]);
  const { receivedAt, updatedAt, dueAt, ...rest } = own ?? {};
  expect(inserted).toMatchObject({ ...rest, id: 'evt_0100000', event: recorded });
  expect([updatedAt, dueAt]).toEqual([receivedAt, receivedAt]);
  app.db.exec("DELETE FROM stablehooks_events WHERE id = 'evt_recorded'");
});

/** The processor time of some work, in ms: the least of several runs, so that other work of this process does not count. */
async function processorTime(work: () => unknown): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < 5; run += 1) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / 1_000);
  }
  return Math.min(...times);
}

test(`the first page of ${EVENTS} events takes no more work than that of a thousand, and counting reads no payloads`, async () => {
  await using small = await startInspectedApp();
  insertEvents(small, 1_000);
  const readPages = ({ inbox }: InspectedApp) =>
    processorTime(async () => {
      for (let page = 0; page < 50; page += 1) await inbox.list({ state: 'received', limit: 100 });
    });
  const pages = { ofThousand: await readPages(small), ofMany: await readPages(app) };
  const reading = app.db.prepare('SELECT sum(length(event)) FROM stablehooks_events');
  const counts = {
    counting: await processorTime(() => app.inbox.count()),
    readingPayloads: await processorTime(() => reading.all()),
  };
  console.log('Processor time in ms:', pages, counts);
  expect(pages.ofMany).toBeLessThan(5 * pages.ofThousand);
  expect(counts.counting).toBeLessThan(counts.readingPayloads);
});

test(`of ${EVENTS} events the page requests a hundred before it shows its first rows`, async () => {
  const { page, requests } = await open('about:blank');
  // Never answered: the first change that the stream tells makes the page read its list again.
  await page.route('**/api/stream?*', () => undefined);
  const answers: Response[] = [];
  page.on('response', (response) => {
    if (response.url().includes('/api/events?')) answers.push(response);
  });
  await page.addInitScript(() => {
    const observer = new MutationObserver(() => {
      if (document.querySelectorAll('.rows a').length < 10) return;
      observer.disconnect();
      // After the frame that paints them.
      requestAnimationFrame(() => setTimeout(() => performance.mark('rows')));
    });
    observer.observe(document, { childList: true, subtree: true });
  });
  await page.goto(`${app.url}/?view=events`);
  await page.waitForFunction(() => performance.getEntriesByName('rows').length > 0);
  const asked = requests.filter((path) => path.startsWith('events?'));
  const bodies = await Promise.all(answers.map((answer) => answer.body()));
  const time = await page.evaluate(() => performance.getEntriesByName('rows')[0]?.startTime ?? Number.NaN);
  console.log(
    `First rows of ${EVENTS.toLocaleString('en')} events: ${Math.round(time)} ms after the navigation.`,
  );
  expect(asked).toEqual(['events?limit=100']);
  const bytes = bodies.reduce((sum, { length }) => sum + length, 0);
  expect(bytes).toBeLessThan(100_000);
});
