import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { PollerClient } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { onTestFinished } from 'vitest';

/** One query, and how many requests came before it. */
export interface Asked {
  readonly type: string | null;
  readonly limit: number;
  readonly count: number;
}

/** Starts a server whose list answers whatever the test returns, and creates a client of it that does not retry. */
export async function startList(
  answer: (asked: Asked) => readonly unknown[] | number,
): Promise<PollerClient> {
  let count = 0;
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
    const asked = { type: searchParams.get('type'), limit: Number(searchParams.get('limit') ?? 50), count };
    count += 1;
    const result = answer(asked);
    if (typeof result === 'number')
      response.writeHead(result, result === 429 ? { 'retry-after': '600' } : {}).end();
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return createClient({ baseUrl: `http://127.0.0.1:${port}`, token: 'token', retries: 0 });
}

/** The first `limit` events of one type. */
export function cut<Item extends { readonly type: string }>(
  events: readonly Item[],
  { type, limit }: Pick<Asked, 'type' | 'limit'>,
): readonly Item[] {
  return events.filter((event) => type === null || event.type === type).slice(0, limit);
}
