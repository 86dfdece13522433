import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import type { Page } from 'playwright-core';
import { memoryInbox } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { createInspector, fromInbox, fromSandbox } from 'stablehooks-kit/inspector';
import { createSandbox, type Sandbox } from 'stablehooks-kit/sandbox';
import { afterEach, describe, expect, test } from 'vitest';
import { freePort } from '../../../test/services/free-port.js';
import { serveInspector } from '../../src/inspector/local-server.js';
import { serve } from '../http-server.js';
import { findViolations, NARROW, useBrowser, WIDE } from './browser.js';

const { open, closePages } = useBrowser();
const closing: (() => unknown)[] = [];
afterEach(async () => {
  await closePages();
  for (const close of closing.splice(0)) await close();
});

const ACTIONS = [
  ...(['resend', 'requeue', 'run', 'discard', 'acknowledge-gap'] as const),
  ...(['fire', 'set-faults', 'clear-faults', 'advance-clock'] as const),
  ...(['move', 'add-endpoint', 'remove-endpoint'] as const),
];

/** A sandbox with all that its views show. */
async function startSandbox(): Promise<Sandbox> {
  const statuses = [200, 200, 500, 404];
  const fetch = async () => new Response('{"outcome":"handled"}', { status: statuses.shift() ?? 200 });
  const sandbox = createSandbox({ seed: 1, clock: 'manual', endpoints: [{ fetch }], maxAttempts: 2 });
  closing.push(sandbox.close);
  const limits = { perTx: '50.00', daily: '100.00' };
  const wallet = { agentId: 'agent-7', label: 'ops', chain: 'base', limits, allowlist: ['0xa'] } as const;
  sandbox.send(sandbox.wallets.create(wallet).id, { amount: '42.50', to: '0xa' });
  sandbox.redeem({ failsWith: 'bank' });
  sandbox.faults.set({ drop: 0.25, duplicate: { next: 3 }, listCap: 20 });
  await sandbox.settled();
  return sandbox;
}

/** An inspector of a sandbox, for whoever asks. */
function inspect(sandbox: Sandbox) {
  const inspector = createInspector({
    ...{ source: fromSandbox(sandbox), actions: ACTIONS, authorize: () => true },
  });
  closing.push(inspector.close);
  return inspector;
}

/** An inspector of an inbox with events in several states. */
async function inspectInbox() {
  const inbox = memoryInbox();
  const fail = async () => {
    throw new Error('The ledger is closed.');
  };
  // An id that is long must not make the page wider.
  const long = exampleEvent('redeem.failed', { id: `evt_${'long'.repeat(60)}` });
  await inbox.record([long, exampleEvent('transfer.settled')], { origin: 'push', dueInMs: 0 });
  const source = fromInbox(inbox, { name: 'payments', run: fail });
  const inspector = createInspector({ source, actions: ACTIONS, authorize: () => true });
  closing.push(inspector.close);
  return inspector;
}

/** A server that can be stopped and started again at its port. */
async function startServer(first: (request: Request) => Promise<Response>) {
  let answer = first;
  /** The requests to the stream that are open. */
  let streams = 0;
  const listener: RequestListener = (request, response) => {
    if (request.url?.includes('/api/stream')) {
      streams += 1;
      response.once('close', () => (streams -= 1));
    }
    void getRequestListener((each) => answer(each))(request, response);
  };
  const server = createServer(listener);
  const port = await freePort();
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const stop = async () => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  closing.push(stop);
  return {
    url: `http://127.0.0.1:${port}/`,
    streams: () => streams,
    stop,
    async start(next = first): Promise<void> {
      answer = next;
      await once(server.listen(port, '127.0.0.1'), 'listening');
    },
  };
}

const live = (page: Page) => page.getByText('Live', { exact: true }).waitFor();

const viewLinks = (page: Page) => page.getByRole('navigation', { name: 'Views' }).getByRole('link');

/** The list of events has the event. */
const rowOf = (page: Page, id: string) => page.getByRole('table').getByText(id).first();

test('the page shows the views that its source has', async () => {
  const inspector = await inspectInbox();
  await using server = await serve(getRequestListener(inspector.fetch));
  const { page, errors } = await open(server.url);
  await page.getByRole('link', { name: 'Coverage', exact: true }).click();
  await page.getByText('Nothing is proven yet').waitFor();
  expect(await viewLinks(page).allInnerTexts()).toEqual(['Overview', 'Events', 'Coverage']);
  await expect.poll(() => new URL(page.url()).search).toBe('?view=coverage');
  await expect.poll(() => page.title()).toBe('Coverage – payments');
  expect(errors).toEqual([]);
});

test('the token leaves the address bar, and the page works without it when it is loaded again', async () => {
  const server = await serveInspector(fromSandbox(await startSandbox()), { port: 0 });
  closing.push(server.close);
  const { page, errors } = await open(server.url);
  await live(page);
  expect(page.url()).not.toContain('token');
  await page.reload();
  await live(page);
  expect(errors).toEqual([]);
});

describe('the stream', () => {
  test('is held by one of several tabs, each of them sees what happens, and another takes over', async () => {
    const sandbox = await startSandbox();
    const server = await startServer(inspect(sandbox).fetch);
    const first = await open(`${server.url}?view=events`);
    const { context } = first;
    await live(first.page);
    const others = [
      await open(`${server.url}?view=events`, { context }),
      await open(`${server.url}?view=events`, { context }),
    ];
    for (const { page } of others) await live(page);
    await expect.poll(server.streams).toBe(1);
    expect(others.flatMap(({ requests }) => requests).filter((path) => path.startsWith('stream'))).toEqual(
      [],
    );

    const shared = sandbox.emit('transfer.settled');
    await sandbox.settled();
    for (const { page } of [first, ...others]) await rowOf(page, shared.id).waitFor();

    await first.page.close();
    // No tab, or already the next one, reads the stream.
    const between = sandbox.emit('redeem.completed');
    await sandbox.settled();
    for (const { page } of others) await rowOf(page, between.id).waitFor();
    await expect.poll(server.streams).toBe(1);
    const after = sandbox.emit('accept.confirmed');
    await sandbox.settled();
    for (const { page, errors } of others) {
      await rowOf(page, after.id).waitFor();
      expect(errors).toEqual([]);
    }
  });

  test('tells since when it is lost, goes on by itself, and fills in what was missed', async () => {
    const sandbox = await startSandbox();
    const server = await startServer(inspect(sandbox).fetch);
    const { page, context } = await open(`${server.url}?view=events`);
    await live(page);
    const { page: other } = await open(`${server.url}?view=events`, { context });
    await live(other);

    const stoppedAt = Date.now();
    await server.stop();
    for (const each of [page, other]) {
      const banner = each.getByRole('alert').filter({ hasText: 'does not respond' });
      await banner.getByRole('time').waitFor();
      const since = await banner.getByRole('time').getAttribute('datetime');
      expect(Date.parse(since ?? '')).toBeGreaterThanOrEqual(stoppedAt);
      expect(Date.parse(since ?? '')).toBeLessThanOrEqual(Date.now());
    }
    const missed = sandbox.emit('transfer.failed');
    await sandbox.settled();
    await server.start();
    for (const each of [page, other]) {
      await rowOf(each, missed.id).waitFor();
      await live(each);
    }
  });

  test('begins again when another process answers, and actions work with its token', async () => {
    const server = await startServer(inspect(await startSandbox()).fetch);
    const { page } = await open(`${server.url}?view=sandbox`);
    await live(page);
    await server.stop();
    await page.getByText('does not respond').first().waitFor();
    const next = createSandbox({ seed: 2, clock: 'manual' });
    closing.push(next.close);
    await server.start(inspect(next).fetch);
    await page.getByText('There are no movements yet').waitFor();
    await page.getByRole('button', { name: 'Fire' }).click();
    await page.getByText('Fired accept.confirmed as').waitFor();
    expect(next.events()).toHaveLength(1);
  });

  test('says what to do when the process was restarted with another token, and recovers from it', async () => {
    const sandbox = await startSandbox();
    const port = await freePort();
    const first = await serveInspector(fromSandbox(sandbox), { port });
    const { page, context } = await open(`${first.url}&view=events`);
    await live(page);
    await first.close();
    const second = await serveInspector(fromSandbox(sandbox), { port });
    closing.push(second.close);
    await page.getByText('The process was restarted. Open the new URL that it printed.').waitFor();
    await open(second.url, { context });
    await live(page);
    const event = sandbox.emit('transfer.settled');
    await sandbox.settled();
    await rowOf(page, event.id).waitFor();
  });
});

const LOOKS = [
  { colorScheme: 'light', size: 'wide', viewport: WIDE },
  { colorScheme: 'dark', size: 'narrow', viewport: NARROW },
] as const;
const SOURCES = {
  sandbox: async () => inspect(await startSandbox()).fetch,
  inbox: async () => (await inspectInbox()).fetch,
};
const CASES = LOOKS.flatMap((look) => Object.entries(SOURCES).map(([of, start]) => ({ ...look, of, start })));

describe.each(CASES)('every view of a $of, $colorScheme and $size', ({ start, colorScheme, viewport }) => {
  test('has no violation of axe or of the policy, fits the width, and all of it is reached by Tab', async () => {
    const server = await startServer(await start());
    const { page, errors } = await open(server.url, { colorScheme, viewport });
    await live(page);
    const views = await viewLinks(page).allInnerTexts();
    expect(views.length).toBeGreaterThan(1);
    for (const view of views) {
      await viewLinks(page).filter({ hasText: view }).click();
      await showsAll[view]?.(page);
      await inspectView(page, view);
    }
    await viewLinks(page).filter({ hasText: 'Events' }).click();
    await page.getByRole('table').getByRole('link').first().click();
    await page
      .getByRole('textbox', { name: 'Request: body' })
      .or(page.getByRole('textbox', { name: 'Body' }))
      .first()
      .waitFor();
    await inspectView(page, 'with the first event open');
    expect(errors).toEqual([]);
  });
});

/** Waits until a view shows what it loads. */
const showsAll: Readonly<Record<string, (page: Page) => Promise<void>>> = {
  async Overview(page) {
    await page.getByText('All checks').click();
    await page.getByRole('list', { name: 'Checks' }).waitFor();
  },
  async Events(page) {
    await page.getByRole('table').getByRole('link').first().waitFor();
    await page.getByRole('link', { name: /^All \d/ }).waitFor();
  },
  async Coverage(page) {
    await page.getByRole('region', { name: 'Gaps' }).waitFor();
  },
  async Sandbox(page) {
    await page.getByRole('table').last().waitFor();
    await page.getByRole('slider').first().waitFor();
  },
};

async function inspectView(page: Page, view: string): Promise<void> {
  expect(await findViolations(page), `violations of axe in ${view}`).toEqual([]);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(width, `the width of ${view}`).toBeLessThanOrEqual(page.viewportSize()?.width ?? 0);
  expect(await findUnreached(page), `not reached by Tab, or without a visible focus, in ${view}`).toEqual([]);
}

/** Presses Tab until the focus leaves the page, and gives what was not reached or does not show the focus. */
async function findUnreached(page: Page): Promise<readonly string[]> {
  await page.evaluate(() => {
    (document.activeElement as HTMLElement | null)?.blur();
    getSelection()?.removeAllRanges();
    for (const element of document.querySelectorAll('[data-reached]'))
      element.removeAttribute('data-reached');
    // Tab begins at the start of the page.
    const start = document.createElement('span');
    start.tabIndex = -1;
    document.body.prepend(start);
    start.focus();
    start.remove();
  });
  const mark = () =>
    page.evaluate(() => {
      const element = document.activeElement;
      if (element === null || element === document.body || element.hasAttribute('data-reached')) return false;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      element.setAttribute(
        'data-reached',
        outlineStyle === 'none' || outlineWidth === '0px' ? 'unseen' : 'seen',
      );
      return true;
    });
  do await page.keyboard.press('Tab');
  while (await mark());
  return page.evaluate(() => {
    // Of radio buttons, Tab reaches the one that is chosen.
    const inputs = 'input:not([type="radio"]), input[type="radio"]:checked';
    const usable = `a[href], button, ${inputs}, select, textarea, summary, [tabindex="0"]`;
    return [...document.querySelectorAll<HTMLElement>(usable)]
      .filter(
        (element) => element.tabIndex >= 0 && !element.matches(':disabled') && element.checkVisibility(),
      )
      .filter((element) => element.getAttribute('data-reached') !== 'seen')
      .map((element) => element.outerHTML.slice(0, 120));
  });
}
