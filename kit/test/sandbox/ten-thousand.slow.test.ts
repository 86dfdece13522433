import { createHash } from 'node:crypto';
import { createSandbox, type SandboxOptions } from 'stablehooks-kit/sandbox';
import { expect, test } from 'vitest';

const faults = {
  drop: 0.2,
  duplicate: 0.2,
  reorder: 0.3,
  reorderMs: 5000,
  delay: 0.05,
  corruptSignature: 0.05,
};

async function runOf(options: SandboxOptions & { readonly events: number }) {
  const { events: count, ...rest } = options;
  const arrivals: string[] = [];
  const sandbox = createSandbox({
    clock: 'manual',
    faults,
    ...rest,
    endpoints: [
      {
        fetch: async (request) => {
          const body = await request.text();
          arrivals.push(`${request.headers.get('x-service-signature')} ${body}`);
          return new Response(null, { status: arrivals.length % 17 === 0 ? 500 : 200 });
        },
      },
    ],
  });
  for (let n = 0; n < count; n++) sandbox.emit('transfer.settled');
  await sandbox.settled();
  const events = sandbox.events();
  const attempts = sandbox.attempts();
  const ended = sandbox.clock.now();
  const deliveries = sandbox.deliveries();
  await sandbox.close();
  return { events, attempts, deliveries, arrivals, ended };
}

test('each of 10,000 events is delivered, and the kept attempts stay within their bound', async () => {
  const { events, attempts, deliveries, arrivals } = await runOf({
    seed: 7,
    events: 10_000,
    maxAttempts: 20,
  });
  expect(events).toHaveLength(10_000);
  expect(events.every(({ delivered }) => delivered)).toBe(true);
  expect(deliveries.every(({ state }) => state === 'delivered')).toBe(true);
  expect(attempts).toHaveLength(10_000);
  const made = deliveries.reduce((sum, delivery) => sum + delivery.attempts, 0);
  expect(made).toBeGreaterThan(12_000);
  expect(arrivals.length).toBeGreaterThan(10_000);
  const ids = arrivals.map((arrival) => JSON.parse(arrival.slice(65)).id);
  expect(new Set(ids).size).toBe(10_000);
  const fired = events.map(({ id }) => id).reverse();
  expect([...new Set(ids)]).not.toEqual(fired);
});

test('the same seed gives the same run byte for byte, and another seed gives another run', async () => {
  const digest = async (seed: number) =>
    createHash('sha256')
      .update(JSON.stringify(await runOf({ seed, events: 1000 })))
      .digest('hex');
  const first = await digest(42);
  expect(await digest(42)).toBe(first);
  expect(await digest(43)).not.toBe(first);
});
