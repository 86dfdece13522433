/** Deliveries per second of a sandbox while pages read the inspector's stream, and while none does. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import { createInspector, fromSandbox } from 'stablehooks-kit/inspector';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { listenAsProcess } from '../child.js';
import { median } from './measurement.js';

/** How many pages of a browser that share nothing: tabs of one browser share one stream. */
const READERS = 10;

/** What a sandbox delivers. */
export interface InspectedResult {
  readonly readers: number;
  readonly deliveriesPerSecond: number;
  /** Of the deliveries per second without readers, in the same round: the median over the rounds. */
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
  const program = fileURLToPath(new URL('stream-readers.ts', import.meta.url));
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const other = await listenAsProcess({ args: ['--import', 'tsx', program], cwd });
  const sandbox = createSandbox({ endpoints: [{ url: `${other.address}/hooks` }] });
  const inspector = createInspector({ source: fromSandbox(sandbox), authorize: () => true });
  const server = createServer(getRequestListener(inspector.fetch));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const stream = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/stream`;

  async function deliver(readers: number): Promise<number> {
    await fetch(`${other.address}/streams?readers=${readers}&url=${encodeURIComponent(stream)}`);
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
        const perSecond = await deliver(which === 'some' ? READERS : 0);
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
    readers: index * READERS,
    deliveriesPerSecond: median(perSecond),
    ratio: median(perSecond.map((each, round) => each / (found.none[round] ?? Number.NaN))),
  }));
}
