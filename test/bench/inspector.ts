/** Deliveries per second of a sandbox while pages of the inspector are open, and while none is. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import { createInspector, fromSandbox } from 'stablehooks-kit/inspector';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { listenAsProcess } from '../child.js';
import { median } from './measurement.js';

/** How many pages that share nothing: tabs of one browser share one stream, and those that nobody sees ask for nothing. */
const PAGES = 10;

/** What a sandbox delivers. */
export interface InspectedResult {
  readonly pages: number;
  readonly deliveriesPerSecond: number;
  /** Of the deliveries per second without pages, in the same round: the median over the rounds. */
  readonly ratio: number;
}

/** Rounds take turns, so that both meet the same minutes of the machine. */
export async function measureInspector({
  rounds,
  deliveries,
}: {
  readonly rounds: number;
  readonly deliveries: number;
}): Promise<readonly InspectedResult[]> {
  const program = fileURLToPath(new URL('inspector-pages.ts', import.meta.url));
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const other = await listenAsProcess({ args: ['--import', 'tsx', program], cwd });
  const sandbox = createSandbox({ endpoints: [{ url: `${other.address}/hooks` }] });
  const inspector = createInspector({ source: fromSandbox(sandbox), authorize: () => true });
  const server = createServer(getRequestListener(inspector.fetch));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`;

  async function deliver(pages: number): Promise<number> {
    await fetch(`${other.address}/pages?pages=${pages}&api=${encodeURIComponent(api)}`);
    const begun = performance.now();
    for (let sent = 0; sent < deliveries; sent++) sandbox.emit('transfer.settled');
    await sandbox.settled();
    return (deliveries / (performance.now() - begun)) * 1_000;
  }

  const found = { none: [] as number[], some: [] as number[] };
  try {
    for (let round = 0; round <= rounds; round++) {
      const order = round % 2 === 0 ? (['none', 'some'] as const) : (['some', 'none'] as const);
      for (const which of order) {
        const perSecond = await deliver(which === 'some' ? PAGES : 0);
        if (round > 0) found[which].push(perSecond);
      }
    }
  } finally {
    inspector.close();
    server.close();
    server.closeAllConnections();
    await sandbox.close();
    await other.stop();
  }
  return Object.values(found).map((perSecond, index) => ({
    pages: index * PAGES,
    deliveriesPerSecond: median(perSecond),
    ratio: median(perSecond.map((each, round) => each / (found.none[round] ?? Number.NaN))),
  }));
}
