/** The other side of `inspector.ts`, a process of its own: an endpoint, and pages that read the inspector's stream. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

let reading = new AbortController();

/** Opens so many streams, each read to its end. Resolves when all of them are connected. */
async function readStreams(url: string, readers: number): Promise<void> {
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  const responses = await Promise.all(Array.from({ length: readers }, () => fetch(url, { signal })));
  for (const { body } of responses) body?.pipeTo(new WritableStream()).catch(() => undefined);
}

const server = createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  request.resume();
  await once(request, 'end');
  if (pathname === '/streams')
    await readStreams(searchParams.get('url') ?? '', Number(searchParams.get('readers')));
  response.end();
});
await once(server.listen(0, '127.0.0.1'), 'listening');
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
