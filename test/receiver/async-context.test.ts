/** Whose `AsyncLocalStorage` handlers and observers see: apps choose the tenant, the database and the logger by it. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { ReceiverOptions } from 'stablehooks';
import { expect, test } from 'vitest';
import { anEvent } from './delivery.js';
import { durable, gated, type SettledHandler, setUp, until } from './set-up.js';

const requests = new AsyncLocalStorage<string>();

/** Delivers events inside of requests that are named after them, and lists what each call saw. */
function observed(handler: SettledHandler, options: Partial<ReceiverOptions>) {
  const seen: string[] = [];
  const see = (what: string) => seen.push(`${what} sees ${requests.getStore()}`);
  const parts = setUp(
    (event, context) => {
      see(`${context.origin} ${event.id}`);
      context.signal.addEventListener('abort', () => see(`abort ${event.id}`));
      return handler(event, context);
    },
    {
      inbox: durable(),
      onOutcome: ({ kind, event }) => void see(`${kind} ${event?.id}`),
      ...options,
    },
  );
  const deliver = (id: string) => requests.run(id, () => parts.deliver(anEvent({ id })));
  return { ...parts, deliver, seen };
}

test.each<[string, Partial<ReceiverOptions>]>([
  ['maxConcurrency', { maxConcurrency: 1 }],
  ['an ordering key', { orderingKey: () => 'wallet' }],
])('with %s, the handler of a delivery has its context, and redriven ones have none', async (_, options) => {
  const { handler, begun, end } = gated();
  const { deliver, seen } = observed(handler, { answer: 'recorded', ...options });
  for (const id of ['a', 'b', 'c', 'd']) {
    await deliver(id);
    if (id === 'a') await until(() => begun.length === 1);
  }
  while (begun.length < 4) {
    const [last = ''] = begun.slice(-1);
    const { length } = begun;
    await end(last);
    await until(() => begun.length > length);
  }
  await end(begun.at(-1) ?? '');
  await until(() => seen.filter((line) => line.startsWith('handled')).length === 4);
  const own = seen.filter((line) => /^(?:push|queued)/.test(line));
  expect(own.filter((line) => !/ (\w) sees \1$/.test(line))).toEqual([]);
  const redriven = seen.filter((line) => line.startsWith('redrive'));
  expect(redriven.length).toBeGreaterThan(1);
  expect(redriven.filter((line) => !line.endsWith('sees undefined'))).toEqual([]);
});

test('events that start() redrives have no context, even if it was called while a request was served', async () => {
  const inbox = durable();
  await inbox.record([anEvent({ id: 'a' })], { origin: 'pull', dueInMs: 0 });
  const { receiver, seen } = observed(() => undefined, { inbox });
  requests.run('request', () => receiver.start());
  await until(() => seen.length === 2);
  await receiver.close();
  expect(seen).toEqual(['redrive a sees undefined', 'handled a sees undefined']);
});

test('the abort listener and the late outcome of an overdue handler have the context of its delivery', async () => {
  const { handler, begun, end } = gated();
  const { deliver, seen } = observed(handler, { handlerTimeoutMs: 20, leaseMs: 60_000 });
  await Promise.all(['a', 'b'].map(deliver));
  for (const id of begun) await end(id);
  await until(() => seen.filter((line) => line.startsWith('handled')).length === 2);
  for (const id of ['a', 'b']) {
    for (const what of ['push', 'abort', 'failed', 'handled'])
      expect(seen).toContain(`${what} ${id} sees ${id}`);
  }
});
