/** The other side of `inspector.ts`, a process of its own: an endpoint, and what pages of the inspector ask for. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** As long as the page waits between an answer with the counts of its charts and the next request for them. */
const STATS_REST_MS = 1_000;

let reading = new AbortController();

/** Opens so many pages in place of those before. Resolves when the stream of each is connected. */
async function openPages(api: string, pages: number): Promise<void> {
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  await Promise.all(Array.from({ length: pages }, () => openPage(api, signal)));
}

/** Asks for what a page asks for when it is opened, and while attempts arrive. */
async function openPage(api: string, signal: AbortSignal): Promise<void> {
  const ask = async (path: string) => (await fetch(`${api}/${path}`, { signal })).json();
  const { position } = await ask('session');
  await Promise.all([ask('deliveries?limit=100'), ask('deliveries/stats')]);
  const { body } = await fetch(`${api}/stream?after=${position}`, { signal });
  let isStale = false;
  let isResting = false;
  async function refresh(): Promise<void> {
    if (isResting || !isStale) return;
    [isResting, isStale] = [true, false];
    await ask('deliveries/stats');
    await wait(STATS_REST_MS, undefined, { signal });
    isResting = false;
    await refresh();
  }
  const page = new WritableStream({
    write() {
      isStale = true;
      // Ends when the pages are closed.
      refresh().catch(() => undefined);
    },
  });
  body?.pipeTo(page).catch(() => undefined);
}

const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  request.resume();
  await once(request, 'end');
  if (pathname === '/pages')
    await openPages(searchParams.get('api') ?? '', Number(searchParams.get('pages')));
  response.end();
});
await once(server.listen(0, '127.0.0.1'), 'listening');
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
