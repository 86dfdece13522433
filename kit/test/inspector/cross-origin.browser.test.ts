/**
 * What a page of another origin can do, in a browser that is signed in to the inspector. Cookies do not tell ports
 * apart, so the page of another port of this machine is the strongest attacker: its requests carry the cookie.
 */
import type { Page } from 'playwright-core';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { afterEach, describe, expect, test } from 'vitest';
import { start } from '../command.js';
import { serve } from '../http-server.js';
import { useBrowser } from './browser.js';

const { open, closePages } = useBrowser();
afterEach(closePages);

const SECRET_PATHS = ['api/session', 'api/events', 'api/sandbox', 'api/stream'];

async function startSandbox() {
  const sandbox = start(['sandbox', '--port', '0', '--json']);
  const [line = ''] = (await sandbox.printed(/\n/)).split('\n');
  const { url, inspector } = JSON.parse(line);
  return {
    url: String(url),
    inspectorUrl: String(inspector),
    async [Symbol.asyncDispose]() {
      sandbox.interrupt();
      await sandbox.ended;
    },
  };
}

/** A page of another origin, opened in the profile that holds the cookie of the inspector. */
async function openAttacker(inspectorUrl: string, html: string) {
  const own = await open(inspectorUrl);
  await own.page.getByRole('navigation').waitFor();
  const site = await serve((request, response) => {
    if (request.url === '/own')
      response.setHeader('content-type', 'text/javascript').end('"its own content"');
    else response.setHeader('content-type', 'text/html').end(html);
  });
  const attacker = await open(site.url, { context: own.context });
  return { own, attacker, [Symbol.asyncDispose]: () => site[Symbol.asyncDispose]() };
}

describe('a page of another origin', () => {
  test('can read nothing by fetch, in no mode', async () => {
    await using sandbox = await startSandbox();
    await using pages = await openAttacker(sandbox.inspectorUrl, '<p>another site</p>');
    const read = (page: Page, mode: RequestMode) =>
      page.evaluate(
        ([base, paths, mode]) =>
          Promise.all(
            paths.map((path) =>
              fetch(`${base}/${path}`, { mode, credentials: 'include' }).then(
                (response) => `${response.type} ${response.status}`,
                () => 'no answer',
              ),
            ),
          ),
        [sandbox.url, SECRET_PATHS, mode] as const,
      );
    expect(await read(pages.attacker.page, 'cors')).toEqual(SECRET_PATHS.map(() => 'no answer'));
    // Opaque, and not even that: the policy of the resource stops it in the browser.
    expect(await read(pages.attacker.page, 'no-cors')).toEqual(SECRET_PATHS.map(() => 'no answer'));
    // The same requests from the page itself are answered, so the paths are right. The stream never ends.
    expect(await read(pages.own.page, 'cors')).toEqual(SECRET_PATHS.map(() => 'basic 200'));
  });

  test('can act neither by fetch nor by a form', async () => {
    await using sandbox = await startSandbox();
    const html = `<form method="post" action="${sandbox.url}/api/actions/fire" enctype="text/plain">
      <input name='{"type":"accept.confirmed","x":"' value='"}'><button>win a prize</button></form>`;
    await using pages = await openAttacker(sandbox.inspectorUrl, html);
    const { page } = pages.attacker;
    const fire = (token?: string) =>
      page.evaluate(
        ([url, token]) =>
          fetch(url, {
            method: 'POST',
            ...{ credentials: 'include', mode: token === undefined ? 'no-cors' : 'cors' },
            headers:
              token === undefined ? {} : { 'content-type': 'application/json', 'x-inspector-token': token },
            body: '{"type":"accept.confirmed"}',
          }).then(
            ({ status }) => status,
            () => 'no answer',
          ),
        [`${sandbox.url}/api/actions/fire`, token] as const,
      );
    expect(await fire()).toBe('no answer');
    // Even with the token of the page, which another origin cannot read.
    const { actionToken } = await pages.own.page.evaluate(() =>
      fetch('./api/session').then((response) => response.json()),
    );
    expect(await fire(actionToken)).toBe('no answer');
    const [answer] = await Promise.all([
      page.waitForResponse((response) => response.url().endsWith('/fire')),
      page.getByRole('button').click(),
    ]);
    expect(answer.status()).toBe(403);
    expect(await countEvents(sandbox.url)).toBe(0);
  });
});

async function countEvents(url: string): Promise<number> {
  const { token } = createSandbox();
  const response = await fetch(`${url}/sandbox/events`, { headers: { authorization: `Bearer ${token}` } });
  return (await response.json()).length;
}
