/** A process that makes a receiver per request says so once. */
import { expect, test, vi } from 'vitest';
import { anEvent, delivery, secret } from './delivery.js';

/** The lines of a fresh process in which each receiver gets so many deliveries. */
async function linesOf(receivers: number, deliveries: number): Promise<readonly string[]> {
  vi.resetModules();
  const { createReceiver } = await import('stablehooks');
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  for (let made = 0; made < receivers; made += 1) {
    const receiver = createReceiver({
      secret,
      handlers: { 'transfer.settled': () => undefined },
      logger: { warn: log, error: log },
    });
    for (let count = 0; count < deliveries; count += 1) await receiver.receive(await delivery(anEvent()));
  }
  return lines;
}

test('it is logged once that a receiver seems to be made per request', async () => {
  expect(await linesOf(120, 1)).toEqual([expect.stringContaining('Call createReceiver once')]);
});

test.each([
  ['many receivers with several deliveries each', 120, 2],
  ['fewer than 50 receivers', 49, 1],
])('%s are no reason for a line', async (_name, receivers, deliveries) => {
  expect(await linesOf(receivers, deliveries)).toEqual([]);
});
