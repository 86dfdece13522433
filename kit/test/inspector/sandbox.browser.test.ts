import { getRequestListener } from '@hono/node-server';
import { createInspector, fromSandbox } from 'stablehooks-kit/inspector';
import {
  createSandbox,
  type Sandbox,
  type SandboxOperations,
  type SandboxOptions,
} from 'stablehooks-kit/sandbox';
import { afterEach, expect, test } from 'vitest';
import { serveInspector } from '../../src/inspector/local-server.js';
import { serve } from '../http-server.js';
import { NARROW, useBrowser } from './browser.js';

const { open, closePages } = useBrowser();
const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await closePages();
  for (const close of closing.splice(0)) await close();
});

/** A sandbox, and its view in a browser. */
async function openSandbox(options: SandboxOptions = {}, prepare: (sandbox: Sandbox) => void = () => {}) {
  const sandbox = createSandbox({ seed: 1, clock: 'manual', ...options });
  prepare(sandbox);
  const server = await serveInspector(fromSandbox(sandbox), { port: 0 });
  closing.push(server.close, sandbox.close);
  const opened = await open(`${server.url}&view=sandbox`);
  await opened.page.getByRole('heading', { name: 'Faults' }).waitFor();
  return { ...opened, sandbox, notice: opened.page.getByRole('status') };
}

test('the endpoints of the sandbox are shown without their secret', async () => {
  const { page } = await openSandbox({
    endpoints: [{ url: 'http://127.0.0.1:9/hooks', secret: 'whsec_hidden', encoding: 'base64' }],
  });
  const row = page.getByRole('region', { name: 'Endpoints, table' }).getByRole('row').nth(1);
  await row.getByText('http://127.0.0.1:9/hooks').waitFor();
  await row.getByText('base64').waitFor();
  expect(await page.content()).not.toContain('whsec_hidden');
});

test('the slider of a fault moves by the keyboard, and each step takes effect in the sandbox', async () => {
  const { page, sandbox, notice } = await openSandbox();
  const slider = page.getByRole('slider', { name: 'Drop: chance' });
  await slider.focus();
  for (let step = 0; step < 5; step += 1) await page.keyboard.press('ArrowRight');
  await expect.poll(() => sandbox.faults.get().drop).toBeCloseTo(0.05);
  await notice.getByText('Drop: 5 %.').waitFor();
  await expect.poll(() => slider.inputValue()).toBe('0.05');
  await page.keyboard.press('End');
  await expect.poll(() => sandbox.faults.get().drop).toBe(1);
  await page.getByText('1 active').waitFor();
});

test('a switch, an order, a cap and durations take effect in the sandbox', async () => {
  const { page, sandbox } = await openSandbox();
  await page.getByRole('switch', { name: 'Filter after the cap' }).focus();
  await page.keyboard.press('Space');
  await page.getByRole('combobox', { name: 'Order', exact: true }).selectOption('shuffled');
  for (const [name, typed] of [
    ['Cap', '20'],
    ['Wrong date', '-2h'],
    ['Token expires after', '90s'],
    ['Delay: for', '1.5s'],
  ] as const) {
    await page.getByRole('textbox', { name, exact: true }).fill(typed);
    await page.keyboard.press('Tab');
  }
  await expect
    .poll(() => sandbox.faults.get())
    .toMatchObject({
      ...{ listFilterAfterCap: true, listOrder: 'shuffled', listCap: 20 },
      ...{ dateSkewMs: -7_200_000, tokenExpiryMs: 90_000, delayMs: 1_500 },
    });
  await page.getByRole('textbox', { name: 'Cap', exact: true }).fill('');
  await page.keyboard.press('Enter');
  await expect.poll(() => sandbox.faults.get().listCap).toBe(null);
});

test('a value that cannot be used is refused with what to write, and changes nothing', async () => {
  const { page, sandbox, notice, requests } = await openSandbox();
  const before = sandbox.faults.get();
  const chance = page.getByRole('textbox', { name: 'Drop: chance' });
  await chance.fill('1.5');
  await chance.press('Enter');
  await notice.getByText('Enter a number from 0 to 1').waitFor();
  await expect.poll(() => chance.getAttribute('aria-invalid')).toBe('true');
  const lag = page.getByRole('textbox', { name: 'Lag', exact: true });
  await lag.fill('-5s');
  await lag.press('Enter');
  await notice.getByText('Enter a duration as a number and a unit').waitFor();
  expect(sandbox.faults.get()).toEqual(before);
  expect(requests.filter((path) => path.startsWith('actions/'))).toEqual([]);
});

test('an event is fired with its example, with an edited payload, and with an unknown type', async () => {
  const { page, sandbox, notice } = await openSandbox();
  await page.getByRole('combobox', { name: 'Type' }).selectOption('redeem.failed');
  const payload = page.getByRole('textbox', { name: 'Payload' });
  await expect.poll(async () => JSON.parse(await payload.inputValue())).toHaveProperty('redeem_id');
  await page.getByRole('button', { name: 'Fire' }).click();
  await notice.getByText('Fired redeem.failed as evt_').waitFor();

  await payload.fill('{ "amount": "0.10", "note": "<b>\u202e" }');
  await page.getByRole('button', { name: 'Fire' }).click();
  await expect.poll(() => sandbox.events()).toHaveLength(2);

  await page.getByRole('combobox', { name: 'Type' }).selectOption('another type …');
  await page.getByRole('textbox', { name: 'Name of the type' }).fill('transfer.reversed');
  await page.keyboard.press('Enter');
  await notice.getByText('Fired transfer.reversed as evt_').waitFor();
  expect(sandbox.events({ order: 'oldest' }).map(({ type, payload }) => [type, payload])).toEqual([
    ['redeem.failed', expect.objectContaining({ redeem_id: expect.any(String) })],
    ['redeem.failed', { amount: '0.10', note: '<b>\u202e' }],
    ['transfer.reversed', {}],
  ]);

  // Each type keeps what was edited, until the example is wanted again.
  await page.getByRole('combobox', { name: 'Type' }).selectOption('redeem.failed');
  await expect.poll(() => payload.inputValue()).toContain('0.10');
  await page.getByRole('button', { name: 'Use the example' }).click();
  await expect.poll(async () => JSON.parse(await payload.inputValue())).toHaveProperty('redeem_id');
});

test.each([
  ['{\n  "amount": "1.00",\n  oops\n}', /not valid JSON: .*position 24/, 24],
  ['{ "amount": "1.00", }', /not valid JSON: .*position 20/, 20],
  ['', /not valid JSON: Unexpected end/, 0],
  ['["a"]', /A payload must be a JSON object/, 0],
  ['{"n":12345678901234567890.123}', /The number 12345678901234567890.123 would be rounded/, 5],
])(
  'a payload that cannot be sent as it is written is refused with where it fails: %j',
  async (text, problem, position) => {
    const { page, sandbox, notice } = await openSandbox();
    const payload = page.getByRole('textbox', { name: 'Payload' });
    await payload.fill(text);
    await page.getByRole('button', { name: 'Fire' }).click();
    await notice.getByText(problem).waitFor();
    await notice.getByText(/^Nothing was fired\./).waitFor();
    await expect.poll(() => payload.getAttribute('aria-invalid')).toBe('true');
    // The caret is where it fails.
    const caret = () =>
      payload.evaluate((element) =>
        element === document.activeElement ? (element as HTMLTextAreaElement).selectionStart : undefined,
      );
    await expect.poll(caret).toBe(position);
    expect(sandbox.events()).toEqual([]);
  },
);

test('names of the sandbox and messages of the server are shown as text, with what is hidden in them', async () => {
  const text = '<img src=x onerror="globalThis.pwned = 1">\u202e\u0007';
  const sandbox = createSandbox({ clock: 'manual' });
  const source = fromSandbox(sandbox);
  sandbox.redeem({ failsWith: 'bank' });
  const service: SandboxOperations = {
    ...sandbox,
    movements: (query) =>
      sandbox.movements(query).map((each) => ({ ...each, reason: text as 'bank', chain: text as 'base' })),
    endpoints: {
      ...sandbox.endpoints,
      list: () => sandbox.endpoints.list().map((each) => ({ ...each, signatureHeader: text })),
    },
  };
  sandbox.endpoints.add({ url: 'http://127.0.0.1:9/hooks' });
  const server = await serveInspector({ ...source, service }, { port: 0 });
  closing.push(server.close, sandbox.close);
  const { page, errors } = await open(`${server.url}&view=sandbox`);
  const shown = toShown(text);
  for (const name of ['Movements', 'Endpoints']) {
    await page
      .getByRole('region', { name: `${name}, table` })
      .getByText(shown)
      .first()
      .waitFor();
  }
  expect(await page.locator('main').innerHTML()).not.toMatch(/\p{Cf}/u);
  expect(errors).toEqual([]);

  // A message of the server, in each view and before any of them.
  for (const [path, failing] of [
    ['?view=sandbox', 'sandbox'],
    ['?', 'overview'],
    ['?view=events', 'events?*'],
    ['?', 'session'],
  ]) {
    await page.route(`**/api/${failing}`, (route) => route.fulfill({ status: 503, json: { message: text } }));
    await page.goto(new URL(path ?? '', page.url()).href);
    await page.getByText(shown).first().waitFor();
    expect(await page.locator('main').innerHTML()).not.toMatch(/\p{Cf}/u);
    await page.unrouteAll();
  }
  expect(await page.evaluate(() => 'pwned' in globalThis)).toBe(false);
});

/** A text as the page shows it. */
function toShown(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, (hidden) => `\\u{${hidden.codePointAt(0)?.toString(16)}}`);
}

test('what the inspector does not allow is not offered', async () => {
  const sandbox = createSandbox({ clock: 'manual' });
  const inspector = createInspector({ source: fromSandbox(sandbox), authorize: () => true });
  await using server = await serve(getRequestListener(inspector.fetch));
  const { page, errors } = await open(`${server.url}/?view=sandbox`);
  await page.getByText('This inspector does not allow you to change faults.').waitFor();
  expect(await page.getByRole('slider', { name: 'Drop: chance' }).isDisabled()).toBe(true);
  expect(await page.getByRole('main').getByRole('button').allInnerTexts()).toEqual([]);
  expect(errors).toEqual([]);
  inspector.close();
  await sandbox.close();
});

test('a movement is begun', async () => {
  const { page, sandbox, notice } = await openSandbox();
  await page.getByRole('button', { name: 'Start a movement …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Start' }).click();
  await notice.getByText(/^Started accept of 25\.00/).waitFor();
  expect(sandbox.movements()).toHaveLength(1);
});

test('on a phone, a row shows all of its cells with their names, and nothing scrolls sideways', async () => {
  const { page } = await openSandbox({ endpoints: [{ url: 'http://endpoint.invalid/hooks' }] });
  await page.setViewportSize(NARROW);
  const region = page.getByRole('region', { name: 'Endpoints, table' });
  await expect
    .poll(() => region.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth))
    .toBe(0);
  const { x = 0, width = 0 } = (await region.getByRole('button', { name: 'Remove …' }).boundingBox()) ?? {};
  expect(x + width).toBeLessThanOrEqual(NARROW.width);
});

test('an endpoint is added and removed', async () => {
  const { page, sandbox, notice } = await openSandbox();
  await page.getByRole('button', { name: 'Add an endpoint …' }).click();
  await page.getByRole('dialog').getByLabel('URL').fill('http://127.0.0.1:9/other');
  await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click();
  await notice.getByText('Later events will also be delivered to http://127.0.0.1:9/other.').waitFor();
  expect(sandbox.endpoints.list()).toMatchObject([{ url: 'http://127.0.0.1:9/other' }]);
  await page.getByRole('button', { name: 'Remove …' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await notice.getByText(/^Removed /).waitFor();
  expect(sandbox.endpoints.list()).toEqual([]);
});
