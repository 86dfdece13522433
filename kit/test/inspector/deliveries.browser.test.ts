import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import type { IncomingMessage, RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import type { BrowserContextOptions, Locator, Page } from 'playwright-core';
import { createReceiver } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import {
  type AttemptDetail,
  type AttemptRow,
  createInspector,
  fromSandbox,
  type InspectorSource,
  type StreamEntry,
} from 'stablehooks-kit/inspector';
import { createSandbox, type Sandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { afterEach, describe, expect, test } from 'vitest';
import { run, SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { SILENT } from '../service.js';
import { findViolations, NARROW, useBrowser, WIDE } from './browser.js';

const { open, closePages } = useBrowser();
const closing: (() => unknown)[] = [];
afterEach(async () => {
  await closePages();
  for (const close of closing.splice(0).reverse()) await close();
});

async function listen(handler: RequestListener): Promise<string> {
  const server = await serve(handler);
  closing.push(() => server[Symbol.asyncDispose]());
  return `${server.url}/hooks`;
}

/** A receiver on a socket, whose handlers do what they are told. */
async function startReceiver(work: (id: string) => void = () => undefined): Promise<string> {
  const handler = ({ id }: { readonly id: string }) => work(id);
  const handlers = { 'transfer.settled': handler, 'redeem.failed': handler };
  return listen(toNodeHandler(createReceiver({ secret: SECRET, logger: SILENT, handlers })));
}

/** An endpoint that answers 200, and keeps what it got. */
async function startRecorder(): Promise<{
  readonly url: string;
  readonly got: { readonly headers: IncomingMessage['headers']; readonly body: Buffer }[];
}> {
  const got: { readonly headers: IncomingMessage['headers']; readonly body: Buffer }[] = [];
  const url = await listen(async (request, response) => {
    got.push({ headers: request.headers, body: Buffer.concat(await request.toArray()) });
    response.end();
  });
  return { url, got };
}

function startSandbox(urls: readonly string[], options: SandboxOptions = {}): Sandbox {
  const endpoints = urls.map((url) => ({ url }));
  const sandbox = createSandbox({ secret: SECRET, maxAttempts: 1, endpoints, ...options });
  closing.push(() => sandbox.close());
  return sandbox;
}

async function inspect(source: InspectorSource, path = '/', options: BrowserContextOptions = {}) {
  const inspector = createInspector({ source, actions: ['resend'], authorize: () => true });
  const server = await serve(getRequestListener(inspector.fetch));
  closing.push(() => server[Symbol.asyncDispose](), inspector.close);
  const opened = await open(`${server.url}${path}`, options);
  return { ...opened, rows: opened.page.locator('.deliveries-rows tbody tr'), url: server.url };
}

/** Opens the page of a sandbox, and waits until it shows an attempt. */
async function inspectSandbox(sandbox: Sandbox, path?: string, options?: BrowserContextOptions) {
  await sandbox.settled();
  const opened = await inspect(fromSandbox(sandbox), path, options);
  await opened.rows.first().waitFor();
  return opened;
}

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name, exact: true });
/** Waits until nothing that moves the list is missing: the counts of the filters, and the charts if there is something to draw. */
async function loaded(page: Page): Promise<void> {
  const all = button(page, /^All\s*\d/);
  await all.waitFor();
  const charts = page.getByRole('group').filter({ hasText: 'Charts' });
  const isDrawn = /[1-9]/.test(await all.innerText()) && (await charts.getAttribute('open')) !== null;
  if (isDrawn) await charts.locator('canvas').nth(1).waitFor();
}

const detailOf = (page: Page) => page.getByRole('region', { name: 'Attempt', exact: true });

/** Waits until a condition holds in the page. */
async function until(condition: () => Promise<boolean>): Promise<void> {
  await expect.poll(condition).toBe(true);
}

async function boxesOf(locator: Locator) {
  return locator.evaluateAll((all) =>
    all.map((each) => {
      const { x, y, width, height } = each.getBoundingClientRect();
      return [x, y, width, height].map(Math.round).join(' ');
    }),
  );
}

describe('why an event failed, and how to run it again', () => {
  test('three clicks from the first page show why an event failed and run it again', async () => {
    let broken = true;
    const ran: string[] = [];
    const url = await startReceiver((id) => {
      if (broken) throw new Error('The ledger is closed.');
      ran.push(id);
    });
    const sandbox = startSandbox([url]);
    const event = sandbox.emit('redeem.failed');
    const { page, rows, errors } = await inspectSandbox(sandbox);
    broken = false;

    await rows.filter({ hasText: event.id }).click();
    await detailOf(page).getByText('The handler threw.').waitFor();
    await detailOf(page).getByText('The log of the endpoint shows the error.').waitFor();
    await button(page, 'Resend').click();

    await detailOf(page).getByText('The handler ran to its end.').waitFor();
    expect(ran).toEqual([event.id]);
    await expect.poll(() => new URL(page.url()).searchParams.get('attempt')).toBeTruthy();
    // The attempt that failed is beside it.
    const others = page.getByRole('region', { name: 'Other attempts of this event' });
    await others.getByText('Failed').waitFor();
    await others.getByRole('link', { name: /^Attempt 1,/ }).click();
    await detailOf(page).getByText('The handler threw.').waitFor();
    await others.getByRole('link', { name: /^Sent again,/ }).waitFor();
    expect(errors).toEqual([]);
  });

  test('an edited body is signed and sent byte for byte, as text, and as hex when it is not UTF-8', async () => {
    const { url, got } = await startRecorder();
    const sandbox = startSandbox([url]);
    sandbox.emit('transfer.settled');
    const { page, rows } = await inspectSandbox(sandbox);
    await rows.first().click();
    await button(page, /Resend edited/).click();
    const text = '{"id":"evt_1",\n  "type":"é\u202e"}';
    await page.getByRole('textbox', { name: 'Body', exact: true }).fill(text);
    await button(page, 'Send').click();
    await until(async () => got.length === 2);
    expect(got[1]?.body.toString()).toBe(text);
    expect(got[1]?.headers['x-service-signature']).not.toBe(got[0]?.headers['x-service-signature']);
    await detailOf(page)
      .getByText(`${Buffer.byteLength(text)} bytes`, { exact: true })
      .waitFor();

    const [{ id = '' } = {}] = (await fromSandbox(sandbox).deliveries?.list({ limit: 1 }))?.rows ?? [];
    await fromSandbox(sandbox).deliveries?.resend(id, { body: Buffer.from('ff0d0a', 'hex') });
    const others = page.getByRole('region', { name: 'Other attempts of this event' });
    await until(async () => (await others.getByRole('link').count()) === 2);
    await others.getByRole('link').first().click();
    await detailOf(page).getByText('3 bytes, not UTF-8').waitFor();
    await button(page, /Resend edited/).click();
    const hex = page.getByRole('textbox', { name: /as hex/ });
    expect(await hex.inputValue()).toBe('ff 0d 0a');
    await hex.fill('ff 0');
    await button(page, 'Send').click();
    await page.getByText('Write two hex digits for each byte.').waitFor();
    await hex.fill('ff 00 0d\n0a');
    await button(page, 'Send').click();
    await until(async () => got.length === 4);
    expect(got[3]?.body.toString('hex')).toBe('ff000d0a');
  });
});

describe('copies', () => {
  const AWKWARD: readonly (readonly [string, Buffer])[] = [
    ['quotes and markup', Buffer.from(`{"a":"it's $HOME \`id\` \\\\ <script>"}\n`)],
    ['a first @', Buffer.from('@/etc/passwd')],
    ['binary', Buffer.from([0, 0xff, 0x0d, 0x0a, 0xc3, 0x28, 0x27])],
    ['hidden characters', Buffer.from('{"a":"\u202e\u0007"}')],
    ['200 kB', Buffer.alloc(200_000, 'x')],
  ];

  /** Copies an attempt with each of the bodies, and passes what was copied on. Gives what the endpoint got. */
  async function copyEach(name: string, use: (copied: string, body: Buffer) => Promise<void>) {
    const { url, got } = await startRecorder();
    const sandbox = startSandbox([url]);
    sandbox.emit('transfer.settled');
    await sandbox.settled();
    const { deliveries } = fromSandbox(sandbox);
    const [{ id = '' } = {}] = (await deliveries?.list({ limit: 1 }))?.rows ?? [];
    const permissions = ['clipboard-read', 'clipboard-write'];
    const { page } = await inspectSandbox(sandbox, '/', { permissions });
    for (const [label, body] of AWKWARD) {
      const sent = await deliveries?.resend(id, { body });
      await page.goto(`${new URL('/', page.url())}?attempt=${encodeURIComponent(sent ?? '')}`);
      await button(page, name).click();
      await page.getByText('Copied.').waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      expect(copied, label).not.toContain(SECRET);
      await use(copied, body);
    }
    return got;
  }

  test('the copied curl sends exactly the bytes and the signature of the attempt', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'stablehooks-'));
    const bodies: Buffer[] = [];
    const got = await copyEach('Copy as curl', async (copied, body) => {
      // In a file, because it is too long for an argument.
      await writeFile(join(folder, 'copied.sh'), copied);
      const { stderr, exitCode } = await runProgram('sh', [join(folder, 'copied.sh')]);
      expect(stderr).not.toContain('curl:');
      expect(exitCode).toBe(0);
      bodies.push(body);
    });
    await rm(folder, { recursive: true });
    // The first is the event; then each is sent by the sandbox, and by curl.
    const [sent, repeated] = [
      got.filter((_, at) => at % 2 === 1),
      got.filter((_, at) => at > 0 && at % 2 === 0),
    ];
    expect(repeated.map(({ body }) => body)).toEqual(bodies);
    expect(repeated.map(({ headers }) => headers['x-service-signature'])).toEqual(
      sent.map(({ headers }) => headers['x-service-signature']),
    );
    expect(repeated.map(({ headers }) => headers['content-type'])).toEqual(
      bodies.map(() => 'application/json'),
    );
  });

  test('the copied fixture holds the bytes, and its signature is verified by the command line', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'stablehooks-'));
    await copyEach('Copy as fixture', async (copied, body) => {
      const fixture = JSON.parse(copied);
      const bytes = Buffer.from(fixture.body, fixture.encoding);
      expect(bytes.equals(body)).toBe(true);
      const file = join(folder, 'body');
      await writeFile(file, bytes);
      const signature = fixture.headers['X-SERVICE-Signature'];
      const { exitCode } = await run(['verify', '--body', file, '--signature', signature]);
      expect(exitCode).toBe(0);
    });
    await rm(folder, { recursive: true });
  });

  test('the copied test compiles, and passes against an endpoint that accepts the bytes', async () => {
    const root = fileURLToPath(new URL('../../../', import.meta.url));
    const folder = await mkdtemp(join(tmpdir(), 'stablehooks-'));
    await mkdir(join(folder, 'node_modules'));
    await symlink(root, join(folder, 'node_modules/stablehooks'), 'dir');
    await symlink(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'), 'dir');
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    const files: string[] = [];
    const bodies: Buffer[] = [];
    const got = await copyEach('Copy as test', async (copied, body) => {
      const file = join(folder, `copied-${files.length}.test.ts`);
      files.push(file);
      bodies.push(body);
      await writeFile(file, copied);
    });
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const flags = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
    const compiled = await runProgram(process.execPath, [tsc, ...flags, ...files], { cwd: folder });
    expect(compiled.stdout).toBe('');

    const before = got.length;
    const tsx = join(root, 'node_modules/tsx/dist/cli.mjs');
    const env = { ...process.env, STABLEHOOKS_SECRET: SECRET };
    // In one process, which starts once.
    const all = join(folder, 'all.ts');
    await writeFile(all, files.map((file) => `import ${JSON.stringify(file)};\n`).join(''));
    const ran = await runProgram(process.execPath, [tsx, all], { cwd: folder, env });
    expect(ran.stdout).toContain(`pass ${AWKWARD.length}`);
    expect(ran.exitCode).toBe(0);
    // The order is not specified.
    const hex = (all: readonly Buffer[]) => all.map((body) => body.toString('hex')).sort();
    expect(hex(got.slice(before).map(({ body }) => body))).toEqual(hex(bodies));
    await rm(folder, { recursive: true });
  });
});

/** The result of a program. */
interface Result {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

function runProgram(file: string, args: readonly string[], options: object = {}): Promise<Result> {
  return new Promise((resolve) => {
    execFile(file, args, { encoding: 'utf8', ...options }, (error, stdout, stderr) => {
      resolve({ stdout, stderr, exitCode: error === null ? 0 : 1 });
    });
  });
}

describe('the list', () => {
  test('each filter narrows the list and is in the URL, and a field keeps the focus while the list is asked for', async () => {
    const url = await startReceiver((id) => {
      if (id === failing) throw new Error('No.');
    });
    const sandbox = startSandbox([url]);
    let failing = '';
    sandbox.emit('transfer.settled');
    sandbox.emit('accept.confirmed');
    await sandbox.settled();
    // Its id is known before it is delivered, because deliveries begin later.
    failing = sandbox.emit('redeem.failed', { note: 'Needle' }).id;
    const { page, rows } = await inspectSandbox(sandbox);
    await until(async () => (await rows.count()) === 3);
    const parameters = () => Object.fromEntries(new URL(page.url()).searchParams);

    await button(page, /^!?\s*Failed\s*1$/).click();
    await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining(failing)]);
    await expect.poll(parameters).toEqual({ kind: 'failed' });
    await button(page, /^All/).click();
    await until(async () => (await rows.count()) === 3);

    await page.getByRole('combobox', { name: 'Type' }).selectOption('accept.confirmed');
    await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining('Without effect')]);
    await page.getByRole('combobox', { name: 'Type' }).selectOption('');
    await until(async () => (await rows.count()) === 3);

    const text = page.getByRole('searchbox', { name: 'Body contains' });
    await text.pressSequentially('needle');
    await until(async () => (await rows.count()) === 1);
    await expect.poll(parameters).toEqual({ text: 'needle' });
    expect(await text.evaluate((each) => each === document.activeElement)).toBe(true);
    await text.fill('');
    await until(async () => (await rows.count()) === 3);

    await page.keyboard.press('Escape');
    await text.blur();
    await page.keyboard.press('/');
    await page.keyboard.type(failing.slice(4).toUpperCase());
    await until(async () => (await rows.count()) === 1);
    await expect.poll(parameters).toEqual({ id: failing.slice(4).toUpperCase() });
    // A link to it shows the same.
    await page.reload();
    await rows.first().waitFor();
    expect(await rows.count()).toBe(1);
    await page.getByRole('searchbox', { name: 'Id contains' }).fill('nothing');
    await page.getByText('No attempt has all of this.').waitFor();
  });

  test('new rows appear at the top, and do not move what one reads', async () => {
    const { url } = await startRecorder();
    const sandbox = startSandbox([url]);
    for (let count = 0; count < 60; count += 1) sandbox.emit('transfer.settled');
    const { page, rows } = await inspectSandbox(sandbox);
    await until(async () => (await rows.count()) === 60);
    const inserted = sandbox.emit('redeem.failed').id;
    await until(async () => (await rows.first().innerText()).includes(inserted));
    await loaded(page);

    // Scrolled down: they are held.
    await rows.nth(40).scrollIntoViewIfNeeded();
    const [before, top] = [await boxesOf(rows), await page.evaluate(() => scrollY)];
    const ids = [sandbox.emit('redeem.failed').id, sandbox.emit('redeem.failed').id];
    await button(page, '2 new').waitFor();
    expect(await boxesOf(rows)).toEqual(before);
    expect(await page.evaluate(() => scrollY)).toBe(top);
    await button(page, '2 new').click();
    await until(async () => (await rows.nth(1).innerText()).includes(ids[0] ?? ''));
    await expect.poll(() => button(page, /new$/).count()).toBe(0);

    // Open: they are held until it is closed.
    await rows.nth(3).click();
    await detailOf(page).getByRole('heading', { name: 'Request' }).waitFor();
    const shown = await rows.allInnerTexts();
    sandbox.emit('redeem.failed');
    await button(page, '1 new').waitFor();
    expect(await rows.allInnerTexts()).toEqual(shown);
  });

  test('older attempts are asked for, and the page has at most some hundred rows', async () => {
    const sandbox = startSandbox([await startReceiver()]);
    for (let count = 0; count < 260; count += 1) sandbox.emit('transfer.settled');
    const { page, rows } = await inspectSandbox(sandbox);
    await expect.poll(() => rows.count()).toBe(100);
    const seen = new Set(await rows.allInnerTexts());
    for (const count of [100, 60]) {
      const first = await rows.first().innerText();
      await page.getByRole('link', { name: 'Older attempts' }).click();
      await until(async () => (await rows.first().innerText()) !== first);
      await expect.poll(() => rows.count()).toBe(count);
      for (const text of await rows.allInnerTexts()) seen.add(text);
    }
    expect(seen.size).toBe(260);
    await page.getByRole('link', { name: 'Show the newest' }).click();
    for (let count = 0; count < 150; count += 1) sandbox.emit('transfer.settled');
    await until(async () => (await rows.count()) === 200);
  });

  test('after a lost connection the list catches up without moving what one reads', async () => {
    const { url } = await startRecorder();
    const sandbox = startSandbox([url]);
    for (let count = 0; count < 50; count += 1) sandbox.emit('transfer.settled');
    const { page, rows, context } = await inspectSandbox(sandbox);
    await until(async () => (await rows.count()) === 50);
    await loaded(page);
    await rows.nth(30).scrollIntoViewIfNeeded();
    const before = await boxesOf(rows);
    await context.setOffline(true);
    for (let count = 0; count < 7; count += 1) sandbox.emit('transfer.settled');
    await sandbox.settled();
    await context.setOffline(false);
    await button(page, '7 new').waitFor();
    expect(await boxesOf(rows)).toEqual(before);
  });
});

describe('the ways of use', () => {
  test('with the keyboard alone, an attempt is found, opened and closed, and the focus returns to its row', async () => {
    const sandbox = startSandbox([await startReceiver()]);
    for (let count = 0; count < 5; count += 1) sandbox.emit('transfer.settled');
    const { page, rows } = await inspectSandbox(sandbox);
    await until(async () => (await rows.count()) === 5);
    await page.keyboard.press('/');
    for (let count = 0; count < 2; count += 1) await page.keyboard.press('Tab');
    const focused = () => page.evaluate(() => document.activeElement?.closest('tr')?.rowIndex);
    await expect.poll(focused).toBe(1);
    await page.keyboard.press('ArrowDown');
    await expect.poll(focused).toBe(2);
    await page.keyboard.press('ArrowDown');
    await expect.poll(focused).toBe(3);
    await page.keyboard.press('Enter');
    await detailOf(page).getByText('The handler ran to its end.').waitFor();
    for (let count = 0; count < 2; count += 1) await page.keyboard.press('Tab');
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe('Resend');
    await page.keyboard.press('Enter');
    await detailOf(page).getByText('The event was done before, so nothing ran', { exact: false }).waitFor();
    await page.keyboard.press('Escape');
    await detailOf(page).waitFor({ state: 'detached' });
    await expect.poll(focused).toBeGreaterThan(0);
    await page.keyboard.press('End');
    await expect.poll(async () => (await focused()) === (await rows.count())).toBe(true);
    // It is one stop of the Tab key, however many rows there are.
    expect(await page.locator('.deliveries-rows tbody a[tabindex="0"]').count()).toBe(1);
  });

  test('at 390 px the attempt replaces the list, and the way back leads to the same place', async () => {
    const sandbox = startSandbox([await startReceiver()]);
    for (let count = 0; count < 40; count += 1) sandbox.emit('transfer.settled');
    const { page, rows } = await inspectSandbox(sandbox, '/', { viewport: NARROW });
    await until(async () => (await rows.count()) === 40);
    await loaded(page);
    const isWide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    expect(await isWide()).toBe(false);
    await rows.nth(25).scrollIntoViewIfNeeded();
    const top = await page.evaluate(() => scrollY);
    expect(top).toBeGreaterThan(0);
    await rows.nth(25).click();
    await detailOf(page).getByText('The handler ran to its end.').waitFor();
    expect(await rows.first().isVisible()).toBe(false);
    expect(await isWide()).toBe(false);
    await page.getByRole('link', { name: 'Back to the list' }).click();
    await rows.nth(25).waitFor();
    await expect.poll(() => page.evaluate(() => scrollY)).toBe(top);
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest('tr')?.rowIndex)).toBe(26);
  });

  test.for([
    { viewport: WIDE, colorScheme: 'light' },
    { viewport: NARROW, colorScheme: 'dark' },
  ] as const)('axe finds nothing at $viewport.width px, $colorScheme', async (options) => {
    const sandbox = startSandbox([await startReceiver(), 'http://127.0.0.1:9/closed']);
    for (const type of ['transfer.settled', 'accept.confirmed', 'unknown.type']) sandbox.emit(type);
    const { page, rows } = await inspectSandbox(sandbox, '/', options);
    expect(await findViolations(page)).toEqual([]);
    await rows.first().click();
    await detailOf(page).getByRole('textbox').first().waitFor();
    expect(await findViolations(page)).toEqual([]);
    await button(page, /Resend edited/).click();
    expect(await findViolations(page)).toEqual([]);
  });
});

/** Strings that try to be something else than text. */
const HOSTILE = [
  '<script>globalThis.pwned = 1</script>',
  '<img src=x onerror="globalThis.pwned = 1">',
  '<svg/onload=globalThis.pwned=1>',
  '</textarea></title></style><script>globalThis.pwned = 1</script>',
  '"><a href="javascript:globalThis.pwned=1" autofocus onfocus="globalThis.pwned=1">x</a>',
  'javascript:globalThis.pwned=1',
  '{{constructor.constructor("globalThis.pwned=1")()}}',
  '<style>*{display:none}</style><base href="http://127.0.0.1:9/">',
  '<iframe srcdoc="<script>top.pwned=1</script>"></iframe><meta http-equiv="refresh" content="0;url=/x">',
  '\u202e\u2066right to left\u2069 \u200f\u061c',
  '\u0000\u0007\u001b[2J\u0008\u007f\u0085\u2028\u2029',
  '\ufeff\u200b\u00ad\u2060zero\u{e0041}',
  '\ud800 half \udc00',
  `Z${'\u0300'.repeat(300)}`,
  'A'.repeat(5_000),
  '\u{1f469}\u200d\u{1f469}\u200d\u{1f467}'.repeat(50),
];

function rowOf(row: Partial<AttemptRow>): AttemptRow {
  return {
    ...{ id: 'del_1.1', at: new Date().toISOString(), eventId: 'evt_1', type: 'transfer.settled' },
    ...{ endpoint: 'http://127.0.0.1/hooks', attempt: 1, kind: 'accepted', status: 200, outcome: 'handled' },
    ...{ durationMs: 1, faults: [] },
    ...row,
  };
}

/** A source of anything: a sandbox makes its ids and URLs itself. */
function sourceOf(
  rows: () => readonly AttemptRow[],
  entries = new Set<(entry: StreamEntry) => void>(),
  detail: Partial<AttemptDetail> = {},
): InspectorSource {
  const zeros = {
    accepted: [0],
    'wrongly-accepted': [0],
    'without-effect': [0],
    refused: [0],
    failed: [0],
    unanswered: [0],
  };
  return {
    name: 'a source of the test',
    deliveries: {
      list: ({ limit, id = '' }) => ({
        rows: rows()
          .filter(({ eventId }) => eventId.includes(id))
          .slice(0, limit),
        next: null,
      }),
      stats: () => ({
        ...{ from: 0, stepMs: 1_000, kinds: zeros, latency: { boundsMs: [1], counts: [0, 0] } },
        ...{ total: 0, types: [...new Set(rows().map(({ type }) => type))] },
      }),
      find: async (id) => {
        const row = rows().find((each) => each.id === id);
        if (row === undefined) return undefined;
        return {
          ...row,
          request: { method: 'POST', url: row.endpoint, headers: {}, body: '' },
          ...{ response: null, error: null, signatureHeader: 'x-service-signature' },
          verdict: { what: 'It is as it should be.', fix: null },
          ...detail,
        };
      },
      resend: async (id) => id,
    },
    subscribe: (listener) => {
      entries.add(listener);
      return () => entries.delete(listener);
    },
  };
}

describe('hostile content', () => {
  const isHarmless = async (page: Page) => {
    expect(await page.evaluate(() => 'pwned' in globalThis)).toBe(false);
    expect(
      await page.locator('main :is(script, iframe, img, base, meta, style, object, embed)').count(),
    ).toBe(0);
    expect(await page.locator('a[href^="javascript:" i]').count()).toBe(0);
    expect(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false);
  };

  test('ids, types, URLs and outcomes run nothing and change the layout of no row', async () => {
    const list = (make: (text: string) => string) => () =>
      HOSTILE.map((text, index) => {
        const [all, kind] = [make(text), 'failed'] as const;
        const at = new Date(2026, 0, 1).toISOString();
        return rowOf({
          id: `${index} ${all}`,
          at,
          eventId: all,
          type: all,
          endpoint: all,
          outcome: all,
          kind,
        });
      });
    const boxes = async (source: InspectorSource) => {
      const { page, rows, errors } = await inspect(source);
      await until(async () => (await rows.count()) === HOSTILE.length);
      await loaded(page);
      await isHarmless(page);
      expect(errors).toEqual([]);
      return boxesOf(
        page.locator('header, .deliveries-filters, .deliveries-rows, .deliveries-rows :is(th, td)'),
      );
    };
    expect(await boxes(sourceOf(list((text) => text)))).toEqual(await boxes(sourceOf(list(() => 'plain'))));
  });

  test('a body runs nothing and changes no layout outside its box, in every form', async () => {
    const bodies = [
      // As high as a box can be, so that only what leaves it makes a difference.
      `"${'\n'.repeat(60)}"`,
      [...HOSTILE, '\n'.repeat(60)].join('\n'),
      JSON.stringify([...HOSTILE, ...HOSTILE, ...HOSTILE]).padEnd(20_000),
    ];
    const seen: (readonly string[])[] = [];
    for (const body of bodies) {
      const { url } = await startRecorder();
      const sandbox = startSandbox([url]);
      sandbox.emit('transfer.settled');
      await sandbox.settled();
      const { deliveries } = fromSandbox(sandbox);
      const [{ id = '' } = {}] = (await deliveries?.list({ limit: 1 }))?.rows ?? [];
      const attempt = await deliveries?.resend(id, { body: Buffer.from(body) });
      const { page, errors } = await inspectSandbox(
        sandbox,
        `/?attempt=${encodeURIComponent(attempt ?? '')}`,
        {
          viewport: { width: 1_440, height: 3_000 },
        },
      );
      const box = page.getByRole('textbox', { name: 'Request: body' });
      await box.waitFor();
      await loaded(page);
      seen.push(
        await boxesOf(page.locator('header, .deliveries-filters, .deliveries-detail :is(h3, h4, textarea)')),
      );
      for (const form of await page.getByRole('radio').all()) {
        await form.check();
        await isHarmless(page);
        expect(await box.inputValue()).not.toMatch(/[\u202e\u200b]|(?![\n\t])\p{Cc}/u);
      }
      expect(errors).toEqual([]);
    }
    expect(seen[1]).toEqual(seen[0]);
    expect(seen[2]).toEqual(seen[0]);
  });
});
