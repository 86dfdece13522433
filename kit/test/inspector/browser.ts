/** Chromium for the tests of the inspector's page. */
import axe from 'axe-core';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';

/** Debian's; CHROMIUM names another one. */
const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

/** How long to wait for what the browser does: as long as `expect.poll` waits. */
const TIMEOUT_MS = 60_000;

/** A desktop and a phone. */
export const WIDE = { width: 1440, height: 900 };
export const NARROW = { width: 390, height: 844 };

/** A page that was opened, and what its console and the network showed. */
export interface OpenPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors of the console, of scripts, and of the content security policy. It must stay empty. */
  readonly errors: readonly string[];
  /** The paths below `api/` that were requested, with their queries. */
  readonly requests: readonly string[];
}

/** A browser for the tests of a file, which closes it at their end. */
export function useBrowser() {
  let browser: Browser;
  const contexts = new Set<BrowserContext>();
  beforeAll(async () => {
    // Without the sandbox of Chromium, which root cannot use.
    browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ['--no-sandbox'],
      timeout: TIMEOUT_MS,
    });
  });
  afterAll(() => browser.close());

  return {
    browser: () => browser,
    /** Opens a URL in a browser profile of its own, or in that of another page. */
    async open(
      url: string,
      { context: given, ...options }: BrowserContextOptions & { readonly context?: BrowserContext } = {},
    ): Promise<OpenPage> {
      const context = given ?? (await browser.newContext({ viewport: WIDE, ...options }));
      contexts.add(context);
      context.setDefaultTimeout(TIMEOUT_MS);
      const page = await context.newPage();
      const errors: string[] = [];
      const requests: string[] = [];
      page.on('console', (message) => {
        if (message.type() === 'error') errors.push(message.text());
      });
      page.on('pageerror', (error) => errors.push(String(error)));
      page.on('request', (request) => {
        const [, path] = /\/api\/(.*)$/.exec(request.url()) ?? [];
        if (path !== undefined) requests.push(path);
      });
      await page.goto(url);
      return { page, context, errors, requests };
    },
    /** Closes what a test has opened. */
    async closePages(): Promise<void> {
      for (const context of contexts) await context.close();
      contexts.clear();
    },
  };
}

/** The violations that axe finds in a page, for the message of a failure. */
export async function findViolations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  });
}
