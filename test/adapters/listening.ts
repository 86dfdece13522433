import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { adapterContract } from '../contracts/index.js';

export interface Running {
  readonly url: string;
  close(): Promise<void>;
}

/** Listens on a free port. `url` is that of `/hooks`. */
export async function listen(server: Server): Promise<Running> {
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    async close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

export function describeContract(name: string, start: () => Promise<Running>): void {
  describe.concurrent(`the adapter contract on ${name}`, () => {
    let running: Running | undefined;
    beforeAll(async () => {
      running = await start();
    });
    afterAll(() => running?.close());
    for (const { name: rule, run } of adapterContract) {
      test.concurrent(rule, () => run({ url: running?.url ?? '' }));
    }
  });
}
