/** A list that asks for a pause gets it. */
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startList } from './list-server.js';

const quiet = { warn: () => undefined, error: () => undefined };

test.each([
  [429, 600_000, 600_000],
  [503, 54_000, 66_000],
])('after an answer of %i the next poll waits at least %i ms', async (status, least, most) => {
  const waits: number[] = [];
  const receiver = createReceiver({ secret: 'x', handlers: {}, logger: quiet });
  const poller = createPoller({
    ...{ client: await startList(() => status), receiver, logger: quiet, intervalMs: 60_000 },
    runtime: {
      setTimeout(callback, ms) {
        if (ms < 50_000) return setTimeout(callback, ms);
        waits.push(ms);
        return {};
      },
    },
  });
  onTestFinished(() => poller.stop());
  poller.start();
  await vi.waitUntil(() => waits.length > 0, { timeout: 60_000, interval: 1 });
  expect(waits[0]).toBeGreaterThan(least - 1_000);
  expect(waits[0]).toBeLessThanOrEqual(most);
});
