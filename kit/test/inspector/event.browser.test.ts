import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getRequestListener } from '@hono/node-server';
import type { BrowserContextOptions, Locator, Page } from 'playwright-core';
import { createReceiver } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { createInspector, type EventRow, fromSandbox, type InspectorSource } from 'stablehooks-kit/inspector';
import { createSandbox, type Sandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { afterEach, describe, expect, test } from 'vitest';
import { freePort } from '../../../test/services/free-port.js';
import { SECRET } from '../command.js';
import { serve } from '../http-server.js';
import { SILENT } from '../service.js';
import { useBrowser } from './browser.js';

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

async function inspect(source: InspectorSource, path = '/?view=events', options: BrowserContextOptions = {}) {
  const inspector = createInspector({ source, actions: ['resend'], authorize: () => true });
  const server = await serve(getRequestListener(inspector.fetch));
  closing.push(() => server[Symbol.asyncDispose](), inspector.close);
  const opened = await open(`${server.url}${path}`, options);
  return { ...opened, rows: opened.page.locator('.rows tbody tr') };
}

/** Opens the page of an event. */
async function openEvent(sandbox: Sandbox, id: string, options?: BrowserContextOptions) {
  await sandbox.settled();
  const opened = await inspect(
    fromSandbox(sandbox),
    `/?view=events&event=${encodeURIComponent(id)}`,
    options,
  );
  await opened.page.getByRole('region', { name: 'Request' }).waitFor();
  return { ...opened, timeline: opened.page.getByRole('region', { name: 'Deliveries' }) };
}

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name, exact: true });
const notice = (page: Page, text: string | RegExp) => page.locator('.notice').getByText(text);

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

describe('an event', () => {
  test('shows why its last attempt failed, and a resend says how the endpoint answered', async () => {
    let broken = true;
    const ran: string[] = [];
    const url = await startReceiver((id) => {
      if (broken) throw new Error('The ledger is closed.');
      ran.push(id);
    });
    const sandbox = startSandbox([url]);
    const event = sandbox.emit('redeem.failed');
    const { page, timeline, errors } = await openEvent(sandbox, event.id);
    await page.getByText("See the error in the endpoint's log").waitFor();
    await button(page, 'Resend').click();
    await notice(page, /^The endpoint failed: 500 ERR_HANDLER_FAILED after/).waitFor();

    broken = false;
    await button(page, 'Resend').click();
    await notice(page, /^Accepted: 200 handled after/).waitFor();
    expect(ran).toEqual([event.id]);
    await until(async () => (await timeline.getByRole('listitem').count()) === 3);
    await page.getByText('Accepted on attempt 3').waitFor();
    await expect.poll(() => new URL(page.url()).searchParams.get('attempt')).toBeTruthy();
    expect(errors).toEqual([]);
  });

  test('a resend to a port where nothing listens is told as a failure', async () => {
    const { url } = await startRecorder();
    const sandbox = startSandbox([url]);
    const event = sandbox.emit('transfer.settled');
    const { page } = await openEvent(sandbox, event.id);
    await button(page, 'Elsewhere …').click();
    await page.getByRole('textbox', { name: 'URL' }).fill(`http://127.0.0.1:${await freePort()}/hooks`);
    await button(page, 'Send').click();
    await notice(page, /^Not delivered: .*ECONNREFUSED/).waitFor();
    expect(await page.locator('.notice-failed').count()).toBe(1);
    // The endpoint of the sandbox has accepted the event.
    await page.getByText('sent elsewhere: does not count').waitFor();
    await page.getByRole('status').getByText('Accepted', { exact: true }).waitFor();
  });

  test('an edited body is signed and sent byte for byte', async () => {
    const { url, got } = await startRecorder();
    const sandbox = startSandbox([url]);
    const event = sandbox.emit('transfer.settled');
    const { page } = await openEvent(sandbox, event.id);
    await button(page, 'Edited …').click();
    const text = '{"id":"evt_1",\n  "type":"é\u202e"}';
    await page.getByRole('textbox', { name: 'Body', exact: true }).fill(text);
    await button(page, 'Send').click();
    await until(async () => got.length === 2);
    expect(got[1]?.body.toString()).toBe(text);
    expect(got[1]?.headers['x-service-signature']).not.toBe(got[0]?.headers['x-service-signature']);
    await page.getByText(`${Buffer.byteLength(text)} bytes`, { exact: true }).waitFor();
  });

  test('an injected failure is told apart from a refusal of the endpoint', async () => {
    const sandbox = startSandbox([await startReceiver()]);
    sandbox.faults.set({ corruptSignature: { next: 1 } });
    const event = sandbox.emit('transfer.settled');
    const { page, timeline } = await openEvent(sandbox, event.id);
    await timeline.getByText('injected: corruptSignature').waitFor();
    await page
      .getByText('correctly refused the delivery')
      .or(page.getByText('(injected: corruptSignature)'))
      .first()
      .waitFor();
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
    const event = sandbox.emit('transfer.settled');
    await sandbox.settled();
    const { deliveries } = fromSandbox(sandbox);
    const id = deliveries?.event(event.id)?.history[0]?.id ?? '';
    const permissions = ['clipboard-read', 'clipboard-write'];
    const { page } = await openEvent(sandbox, event.id, { permissions });
    for (const [label, body] of AWKWARD) {
      const sent = await deliveries?.resend(id, { body });
      const query = new URLSearchParams({ view: 'events', event: event.id, attempt: sent?.id ?? '' });
      await page.goto(`${new URL('/', page.url())}?${query}`);
      await button(page, name).click();
      await notice(page, /was copied\.$/).waitFor();
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

function rowOf(row: Partial<EventRow>): EventRow {
  return {
    ...{
      id: 'evt_1',
      type: 'transfer.settled',
      state: 'failed',
      tone: 'bad',
      verdict: 'Refused',
      attempts: 1,
    },
    ...{ at: Date.UTC(2026, 0, 1), dueAt: null, key: null, history: [] },
    ...row,
  };
}

/** A source of anything: a sandbox makes its ids and URLs itself. */
function sourceOf(rows: readonly EventRow[]): InspectorSource {
  return {
    name: 'a source of the test',
    deliveries: {
      events: async () => ({ rows, next: null, searched: null }),
      counts: async () => ({
        states: [],
        types: [...new Set(rows.map(({ type }) => type))],
        dropped: { exhausted: 0, delivered: 0, unattempted: 0 },
      }),
      now: Date.now,
      event: (id) => rows.find((each) => each.id === id),
      find: async () => undefined,
      resend: () => Promise.reject(new Error('Not in this test.')),
    },
    subscribe: () => () => undefined,
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

  test('ids, types, endpoints and verdicts run nothing and change the layout of no row', async () => {
    const list = (make: (text: string) => string) =>
      HOSTILE.map((text, index) => {
        const all = make(text);
        const line = {
          ...{ id: null, at: 0, name: 'Attempt 1', result: all, endpoint: all, durationMs: 1 },
          ...{ tone: 'bad' as const, faults: [] },
        };
        return rowOf({ id: `${index} ${all}`, type: all, verdict: all, history: [line] });
      });
    const boxes = async (source: InspectorSource) => {
      const { page, rows, errors } = await inspect(source);
      await until(async () => (await rows.count()) === HOSTILE.length);
      await isHarmless(page);
      expect(errors).toEqual([]);
      return boxesOf(page.locator('header, .filters, .rows :is(th, td)'));
    };
    expect(await boxes(sourceOf(list((text) => text)))).toEqual(await boxes(sourceOf(list(() => 'plain'))));
  });

  test('a body runs nothing and changes no layout outside its box, in every form', async () => {
    const bodies = [
      // As high as a box can be, so that only text that leaves it makes a difference.
      JSON.stringify(Array.from({ length: 60 }, () => 1)),
      JSON.stringify([...HOSTILE, ...HOSTILE]),
      JSON.stringify([...HOSTILE, ...HOSTILE, ...HOSTILE]).padEnd(20_000),
    ];
    const seen: (readonly string[])[] = [];
    for (const body of bodies) {
      const { url } = await startRecorder();
      const sandbox = startSandbox([url]);
      const event = sandbox.emit('transfer.settled');
      await sandbox.settled();
      const { deliveries } = fromSandbox(sandbox);
      const first = deliveries?.event(event.id)?.history[0]?.id ?? '';
      const sent = await deliveries?.resend(first, { body: Buffer.from(body) });
      const query = new URLSearchParams({ view: 'events', event: event.id, attempt: sent?.id ?? '' });
      const viewport = { width: 1_440, height: 3_000 };
      const { page, errors } = await inspect(fromSandbox(sandbox), `/?${query}`, { viewport });
      const box = page.getByRole('textbox', { name: 'Request: body' });
      await box.waitFor();
      seen.push(
        await boxesOf(page.locator('header, .event-head, .event-side, .event-main :is(h3, textarea)')),
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
