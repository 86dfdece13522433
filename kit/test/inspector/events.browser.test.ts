/** The jobs of an operator, counted in clicks, and the list of events. */
import type { Page, Response } from 'playwright-core';
import type { UnknownEvent } from 'stablehooks';
import { writePollState } from 'stablehooks/catch-up';
import { exampleEvent } from 'stablehooks/testing';
import { afterEach, describe, expect, test } from 'vitest';
import { fail } from '../inbox-states.js';
import { useBrowser } from './browser.js';
import { giveUp, type InspectedApp, startInspectedApp } from './inspected-inbox.js';

const HOUR = 3_600_000;
const { open, closePages } = useBrowser();
const closing: (() => unknown)[] = [];
afterEach(async () => {
  await closePages();
  for (const close of closing.splice(0)) await close();
});

async function startApp(...args: Parameters<typeof startInspectedApp>): Promise<InspectedApp> {
  const app = await startInspectedApp(...args);
  closing.push(() => app[Symbol.asyncDispose]());
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

/** Counts the clicks of a person. */
function countClicks(page: Page) {
  let clicks = 0;
  return {
    clicks: () => clicks,
    async click(role: 'button' | 'link', name: string | RegExp) {
      clicks += 1;
      await page.getByRole(role, { name }).first().click();
    },
  };
}

const row = (page: Page, id: string) => page.getByRole('link', { name: id, exact: true });
const notice = (page: Page, text: string | RegExp) => page.locator('.notice').getByText(text);

describe('the jobs of an operator', () => {
  test('"is it healthy" takes no click', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_1')]);
    const { page, errors } = await open(app.url);
    await page.getByText('Needs you: dead (1).').waitFor();
    const first = page.getByRole('region', { name: 'What needs you' }).getByRole('listitem').first();
    await first.getByText('the account was closed').waitFor();
    await first.getByRole('link', { name: 'Review dead events' }).waitFor();
    expect(errors).toEqual([]);
  });

  test('"why did evt_x fail" takes two clicks', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_x')]);
    const { page } = await open(app.url);
    const { click, clicks } = countClicks(page);
    await click('link', 'Review dead events');
    await click('link', 'evt_x');
    await page
      .getByText(/^Dead after 1 attempt: .*the account was closed/)
      .first()
      .waitFor();
    await page.getByText('Fix the cause, then requeue the event.').waitFor();
    expect(clicks()).toBeLessThanOrEqual(2);
  });

  test('"rerun yesterday\'s dead of one type and error" takes four clicks', async () => {
    const app = await startApp();
    const ids = ['evt_a', 'evt_b', 'evt_today'];
    const other = exampleEvent('transfer.failed', { id: 'evt_other' });
    await deliverDead(app, [...ids.map((id) => eventOf(id)), other]);
    await fail(app.inbox, eventOf('evt_invalid'), { error: 'ERR_PAYLOAD_INVALID: amount' });
    const yesterday = app.db.prepare('UPDATE stablehooks_events SET updated_at = ? WHERE id <> ?');
    const noon = new Date().setUTCHours(12, 0, 0, 0) - 24 * HOUR;
    yesterday.run(noon, 'evt_today');
    const { page } = await open(app.url, { timezoneId: 'UTC' });
    const { click, clicks } = countClicks(page);
    await page.getByRole('row', { name: /the account was closed/ }).waitFor();
    await click('link', 'transfer.settled');
    await click('button', 'Yesterday');
    await row(page, 'evt_today').waitFor({ state: 'detached' });
    await click('button', 'Requeue 2 …');
    await page.getByText('Dry run: 2 events match').waitFor();
    await page.getByText('The events become due now, their attempts are counted from 0').waitFor();
    await click('button', 'Requeue 2 events');
    await notice(page, '2 events requeued: due now').waitFor();
    expect(clicks()).toBeLessThanOrEqual(4);
    const all = [...ids, other.id, 'evt_invalid'];
    const states = await Promise.all(all.map(async (id) => (await app.inbox.find(id))?.state));
    expect(states).toEqual(['received', 'received', 'dead', 'dead', 'dead']);
  });

  test('"where is this movement" takes one click and a pasted id', async () => {
    const app = await startApp();
    const movement = 'transfer_moved';
    const created = (minute: number) => ({
      created_at: `2026-03-01T10:0${minute}:00Z`,
      payload: { transfer_id: movement },
    });
    const first = exampleEvent('transfer.failed', { id: 'evt_first', ...created(1) });
    const second = exampleEvent('transfer.settled', { id: 'evt_second', ...created(2) });
    await deliverDead(app, [second, first, eventOf('evt_other')]);
    const watermark = Date.parse('2026-03-01T11:00:00Z');
    await writePollState(app.inbox, { since: 1, watermark, limit: 50, oldest: null, gaps: [] });
    const { page, errors } = await open(app.url, { timezoneId: 'UTC' });
    await page.getByRole('searchbox', { name: /^Find an event/ }).click();
    await page.keyboard.type(` ${movement}\n`);
    const story = page.getByRole('list', { name: 'Events of the movement' });
    await story.waitFor();
    const links = story.getByRole('link');
    expect(await links.allInnerTexts()).toEqual(['evt_first', 'evt_second']);
    await story.getByText('dead, 1 attempt, by push').first().waitFor();
    const proof = page.getByText(
      /^The service's event list is proven complete until .*, and contains no later event for this key\.$/,
    );
    expect(await proof.innerText()).toContain('2026-03-01 11:00:00');
    await links.last().click();
    await page.getByRole('link', { name: movement }).waitFor();
    expect(errors).toEqual([]);
  });

  test('"what do I do about this gap" takes one click', async () => {
    const app = await startApp();
    const from = Date.now() - 5 * HOUR;
    const gap = {
      from,
      until: { 'transfer.settled': from + HOUR },
      reason: 'not-reached',
      openedAt: from,
    } as const;
    await writePollState(app.inbox, {
      since: from - HOUR,
      watermark: Date.now(),
      limit: 50,
      oldest: null,
      gaps: [{ ...gap, acknowledged: null }],
    });
    const { page } = await open(app.url);
    const { click, clicks } = countClicks(page);
    await click('link', 'See the gaps');
    await page.getByText(/^stablehooks reconcile --ledger ledger\.csv .*--since .*--until/).waitFor();
    await page.getByRole('button', { name: 'Acknowledge gap 1' }).waitFor();
    expect(clicks()).toBeLessThanOrEqual(1);
  });
});

describe('the list', () => {
  test('each condition of the filter narrows the list, is in the URL, and stays when the page is loaded again', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_dead_1', { note: 'needle' }), eventOf('evt_dead_2')]);
    await app.receiver.accept(eventOf('evt_done'), 'push');
    const { page, errors } = await open(`${app.url}/?view=events`);
    const rows = page.locator('.rows tbody tr');
    await expect.poll(() => rows.count()).toBe(3);
    await page.getByRole('navigation', { name: 'States' }).getByRole('link', { name: /^dead/ }).click();
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByRole('button', { name: 'More filters' }).click();
    for (const [label, text, count] of [
      ['Error contains', 'account was closed', 2],
      ['Id contains', 'DEAD', 2],
      ['Attempts at least', '2', 0],
      ['Attempts at least', '1', 2],
      ['payload.name=value', 'payload.note=needle', 1],
      ['payload.name=value', '', 2],
      ['Body contains', 'needle', 1],
    ] as const) {
      await page.getByRole('searchbox', { name: label }).fill(text);
      await expect.poll(() => rows.count()).toBe(count);
    }
    const query = {
      ...{
        view: 'events',
        state: 'dead',
        error: 'account was closed',
        id: 'DEAD',
        attempts: '1',
        text: 'needle',
      },
    };
    await expect.poll(() => Object.fromEntries(new URL(page.url()).searchParams)).toEqual(query);
    await page.reload();
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByRole('button', { name: 'Clear', exact: true }).click();
    await expect.poll(() => rows.count()).toBe(3);
    await page.getByRole('searchbox', { name: 'Id contains' }).fill('nothing like this');
    await page.getByText('No event matches this filter.').waitFor();
    expect(errors).toEqual([]);
  });

  test('a search reads every event before it says that none meets the filter', async () => {
    const app = await startApp();
    const many = Array.from({ length: 5_100 }, (_, index) => eventOf(`evt_${index}`));
    await app.receiver.accept(eventOf('evt_oldest', { note: 'needle' }), 'push');
    for (let at = 0; at < many.length; at += 1_000) {
      await app.inbox.record(many.slice(at, at + 1_000), { origin: 'push', dueInMs: 60_000 });
    }
    const { page } = await open(`${app.url}/?view=events&text=needle`);
    await row(page, 'evt_oldest').waitFor();
    await page.getByText('5,101 events searched.').waitFor();
    await page.goto(`${app.url}/?view=events&text=nothing+like+this`);
    await page.getByText('No event matches this filter.').waitFor();
    await page.getByText('5,101 events searched.').waitFor();
  });

  test('an id that is outside of the filter is one step away', async () => {
    const app = await startApp();
    await app.receiver.accept(eventOf('evt_done'), 'push');
    const { page } = await open(`${app.url}/?view=events&state=dead&id=evt_done`);
    await page.getByRole('link', { name: 'Search for this id without a filter' }).click();
    await page.getByRole('heading', { name: 'evt_done' }).waitFor();
  });

  test('the history of a requeued event says who requeued it and why, and the name is there the next time', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_1'), eventOf('evt_2')]);
    const { page, errors } = await open(`${app.url}/?view=events&event=evt_1`);
    await page.getByRole('button', { name: 'Requeue …' }).click();
    await page.getByRole('textbox', { name: 'Your name' }).fill('Ada');
    await page.getByRole('textbox', { name: 'Reason' }).fill('the ledger is open again');
    await page.getByRole('button', { name: 'Requeue 1 event' }).click();
    const attempts = page.getByRole('region', { name: 'Attempts in the inbox' });
    const newest = attempts.getByRole('listitem').first();
    await newest.getByText('Requeued by Ada').waitFor();
    await newest.getByText('the ledger is open again').waitFor();
    await page.goto(`${app.url}/?view=events&event=evt_2`);
    await page.getByRole('button', { name: 'Discard …' }).click();
    expect(await page.getByRole('textbox', { name: 'Your name' }).inputValue()).toBe('Ada');
    await page.getByRole('textbox', { name: 'Reason' }).fill('booked by hand');
    await page.getByRole('button', { name: 'Discard 1 event' }).click();
    await newest.getByText('Discarded by Ada').waitFor();
    expect(errors).toEqual([]);
  });

  test('where no event meets the filter, its actions are disabled and say why', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_dead')]);
    await app.receiver.accept(eventOf('evt_done'), 'push');
    const { page } = await open(`${app.url}/?view=events&id=nothing_like_this`);
    await page.getByText('No event matches this filter.').waitFor();
    const requeue = page.getByRole('button', { name: /^Requeue/ });
    const buttons = page.getByRole('button', { name: /^(?:Requeue|Run now|Discard)/ });
    const areDisabled = () =>
      buttons.evaluateAll((found) => found.map((button) => (button as HTMLButtonElement).disabled));
    await expect.poll(areDisabled).toEqual([true, true, true]);
    expect(await requeue.getAttribute('title')).toBe('No matching event is dead or failed.');
    const search = page.getByRole('searchbox', { name: 'Id contains' });
    await search.fill('done');
    await row(page, 'evt_done').waitFor();
    await expect.poll(areDisabled).toEqual([true, true, true]);
    await search.fill('dead');
    await page.getByRole('button', { name: 'Requeue 1 …' }).waitFor();
    expect(await areDisabled()).toEqual([false, false, false]);
    expect((await requeue.getAttribute('title')) ?? '').toBe('');
  });

  test('a row that the keyboard reaches is not below the bars', async () => {
    const app = await startApp();
    await app.inbox.record(
      Array.from({ length: 90 }, (_, index) => eventOf(`evt_${index}`)),
      { origin: 'push', dueInMs: 0 },
    );
    const { page } = await open(`${app.url}/?view=events`);
    await expect.poll(() => page.locator('.rows tbody tr').count()).toBe(90);
    for (let index = 0; index < 70; index += 1) await page.keyboard.press('j');
    for (let index = 0; index < 50; index += 1) await page.keyboard.press('k');
    const bars = await page.locator('.bars').boundingBox();
    const focused = await page.locator('.rows tbody tr:focus-within').boundingBox();
    if (bars === null || focused === null) throw new Error('No row has the focus.');
    expect(focused.y).toBeGreaterThanOrEqual(bars.y + bars.height);
  });

  test('forty rows fit a screen of 1440 by 900 pixels', async () => {
    const app = await startApp();
    await app.inbox.record(
      Array.from({ length: 120 }, (_, index) => eventOf(`evt_${index}`)),
      { origin: 'push', dueInMs: 0 },
    );
    const { page } = await open(`${app.url}/?view=events`);
    const rows = page.locator('.rows tbody tr');
    await expect.poll(() => rows.count()).toBe(100);
    const { y = 0, height = 0 } = (await rows.nth(39).boundingBox()) ?? {};
    expect(y + height).toBeLessThanOrEqual(900);
    await page.getByRole('link', { name: 'Older' }).click();
    await expect.poll(() => rows.count()).toBe(20);
    await page.getByRole('link', { name: 'Newest' }).click();
    await expect.poll(() => rows.count()).toBe(100);
  });

  test('new events appear at the top, and do not move rows that the reader looks at', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_1')]);
    const { page } = await open(`${app.url}/?view=events`);
    const rows = page.locator('.rows tbody tr');
    await row(page, 'evt_1').waitFor();
    await app.receiver.accept(eventOf('evt_2'), 'push');
    await expect.poll(() => rows.first().innerText()).toContain('evt_2');
    await page.getByRole('checkbox', { name: 'Select evt_1' }).check();
    await app.receiver.accept(eventOf('evt_3'), 'push');
    await page.getByRole('button', { name: '1 new' }).click();
    await expect.poll(() => rows.first().innerText()).toContain('evt_3');
  });

  test('selected events are discarded with a name and a reason, and the notice says how many', async () => {
    const app = await startApp();
    await deliverDead(
      app,
      ['evt_1', 'evt_2', 'evt_3'].map((id) => eventOf(id)),
    );
    const { page } = await open(`${app.url}/?view=events`);
    for (const id of ['evt_1', 'evt_3']) await page.getByRole('checkbox', { name: `Select ${id}` }).check();
    await page.getByText('2 selected:').waitFor();
    await page.getByRole('button', { name: 'Discard 2 …' }).click();
    await page.getByText('later deliveries of them are duplicates').waitFor();
    await page.getByRole('textbox', { name: 'Your name' }).fill('Ada');
    await page.getByRole('textbox', { name: 'Reason' }).fill('Paid by hand.');
    await page.getByRole('button', { name: 'Discard 2 events' }).click();
    await notice(page, '2 events discarded.').waitFor();
    await page.getByText('Discarded by Ada: Paid by hand.').first().waitFor();
    expect(await app.inbox.find('evt_2')).toMatchObject({ state: 'dead' });
  });

  test('an event that meets the filter after the dry run is not discarded with the others', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_1'), eventOf('evt_2')]);
    const { page } = await open(`${app.url}/?view=events&state=dead`);
    await page.getByRole('button', { name: 'Discard 2 …' }).click();
    await page.getByText('Dry run: 2 events match').waitFor();
    await deliverDead(app, [eventOf('evt_3')]);
    await page.getByRole('textbox', { name: 'Your name' }).fill('Ada');
    await page.getByRole('textbox', { name: 'Reason' }).fill('Paid by hand.');
    await page.getByRole('button', { name: 'Discard 2 events' }).click();
    await notice(page, '2 events discarded.').waitFor();
    expect(await app.inbox.find('evt_3')).toMatchObject({ state: 'dead' });
  });

  test('a run that fails again is told as a failure', async () => {
    const app = await startApp();
    await deliverDead(app, [eventOf('evt_1')]);
    app.work = giveUp;
    const { page } = await open(`${app.url}/?view=events&event=evt_1`);
    const run = async () => {
      await page.getByRole('button', { name: 'Run now …' }).click();
      await page.getByRole('button', { name: 'Run now 1 event' }).click();
    };
    await run();
    await page.locator('.notice-failed').getByText('1 event ran: 1 dead.').waitFor();
    app.work = () => undefined;
    await run();
    await page.locator('.notice:not(.notice-failed)').getByText('1 event ran: 1 handled.').waitFor();
    await page.getByText('Handled', { exact: true }).waitFor();
  });

  test('with the keyboard alone, an event is found, opened and closed, and its row has the focus again', async () => {
    const app = await startApp();
    await deliverDead(
      app,
      ['evt_1', 'evt_2', 'evt_3'].map((id) => eventOf(id)),
    );
    const { page } = await open(app.url);
    await page.getByRole('region', { name: 'Last hour' }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('e');
    const target = page.locator('.rows tbody tr:nth-child(2) a');
    await target.waitFor();
    const id = await target.innerText();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(id);
    await page.keyboard.press('x');
    await page.getByText('1 selected:').waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: id }).waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(id);
    await page.keyboard.press('/');
    await page.keyboard.type(' evt_3 \n');
    await page.getByRole('heading', { name: 'evt_3' }).waitFor();
  });

  test('every time is in the zone that the page names, which can be switched', async () => {
    const app = await startApp();
    await app.receiver.accept(eventOf('evt_1'), 'push');
    app.db.exec(`UPDATE stablehooks_events SET received_at = ${Date.UTC(2026, 0, 2, 23, 30)}`);
    const { page } = await open(`${app.url}/?view=events`, { timezoneId: 'Asia/Tokyo' });
    const time = page.locator('.rows tbody time').first();
    await page.getByRole('button', { name: 'Times in Asia/Tokyo' }).waitFor();
    await expect.poll(() => time.innerText()).toMatch(/01-03 08:30:00$/);
    await page.keyboard.press('z');
    await page.getByRole('button', { name: 'Times in UTC' }).waitFor();
    await expect.poll(() => time.innerText()).toMatch(/01-02 23:30:00$/);
  });
});

test('an empty inbox is said to be empty, and shows the first event that comes', async () => {
  const app = await startApp();
  const { page } = await open(`${app.url}/?view=events`);
  await page.getByText('No events yet.').waitFor();
  await app.receiver.accept(eventOf('evt_first'), 'push');
  await row(page, 'evt_first').waitFor();
});

test('a list has no bodies, a short one is shown with its event, and a long one when it is asked for', async () => {
  const app = await startApp();
  const iban = 'DE02120300000000202051';
  await deliverDead(app, [eventOf('evt_1', { iban, note: 'x'.repeat(20_000) }), eventOf('evt_2', { iban })]);
  const { page } = await open('about:blank');
  const answers: Response[] = [];
  page.on('response', (response) => {
    if (/\/api\/(?!stream)/.test(response.url())) answers.push(response);
  });
  await page.goto(`${app.url}/?view=events`);
  await row(page, 'evt_1').click();
  const body = page.getByRole('textbox', { name: 'Body' });
  const show = page.getByRole('button', { name: 'Show the body' });
  await show.waitFor();
  const bodies = await Promise.all(answers.map((answer) => answer.text()));
  expect(bodies.join()).not.toContain(iban);
  await show.click();
  await expect.poll(() => body.inputValue()).toContain(iban);
  await page.goto(`${app.url}/?view=events&event=evt_2`);
  await expect.poll(() => body.inputValue()).toContain(iban);
});

test('the page offers only the actions that the app allows', async () => {
  const app = await startApp([]);
  await deliverDead(app, [eventOf('evt_1')]);
  const { page } = await open(`${app.url}/?view=events`);
  await row(page, 'evt_1').waitFor();
  expect(await page.getByRole('checkbox').count()).toBe(0);
  expect(await page.getByRole('button', { name: /Requeue|Run now|Discard/ }).count()).toBe(0);
  await row(page, 'evt_1').click();
  await page.getByRole('textbox', { name: 'Body' }).waitFor();
  expect(await page.getByRole('button', { name: /Requeue|Run now|Discard/ }).count()).toBe(0);
});

test('a lost inbox is shown with the time since when, in each tab, and the page goes on after it', async () => {
  const app = await startApp();
  await deliverDead(app, [eventOf('evt_1')]);
  const { page, context } = await open(`${app.url}/?view=events`);
  await row(page, 'evt_1').waitFor();
  app.loseTable();
  const banner = page.getByText(/^app\.db has been unreadable since .*\d:\d\d/);
  await banner.waitFor();
  await row(page, 'evt_1').waitFor();
  const second = await open(app.url, { context });
  await second.page.getByText(/^app\.db has been unreadable since/).waitFor();
  app.restoreTable();
  await banner.waitFor({ state: 'detached' });
  await app.inbox.requeue('evt_1');
  await page.getByText('Due, but not run yet').waitFor();
  await second.page.getByText(/has been unreadable since/).waitFor({ state: 'detached' });
});
