/** A list of any length, newest first and without a cap, generated while it is read, so it needs no memory here. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { makeBody } from './delivery.js';

const STEP_MS = 10;
const ID = 'evt_00000000';
const BODY = makeBody(ID, 300).toString();
const CREATED_AT = /"created_at":"[^"]*"/;

/** Serves so many events, the newest of a minute ago. */
export async function serveBacklog(count: number) {
  const newest = Date.now() - 60_000;
  const createdAt = (number: number) => newest - (count - 1 - number) * STEP_MS;

  const write = (number: number) =>
    BODY.replace(ID, `evt_${String(number).padStart(8, '0')}`).replace(
      CREATED_AT,
      `"created_at":"${new Date(createdAt(number)).toISOString()}"`,
    );

  function* list(limit: number): Generator<string> {
    for (let from = 0; from < limit; from += 500) {
      const numbers = Array.from({ length: Math.min(500, limit - from) }, (_, at) => count - 1 - from - at);
      yield (from === 0 ? '[' : ',') + numbers.map(write).join(',');
    }
    yield ']';
  }

  const server = createServer((request, response) => {
    const query = new URL(request.url ?? '/', 'http://list').searchParams;
    const limit = Math.min(Number(query.get('limit')), count);
    response.setHeader('content-type', 'application/json');
    const isShown = BODY.includes(query.get('type') ?? '');
    Readable.from(isShown ? list(limit) : ['[]']).pipe(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    createdAt,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
