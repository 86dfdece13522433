/** Polls while a handler runs whose event is not stored yet. */
import { setTimeout } from 'node:timers/promises';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { exampleEvent } from 'stablehooks/testing';
import { expect, onTestFinished, test } from 'vitest';
import { signal } from '../contracts/contract.js';
import { ownPostgres } from '../services/own-postgres.js';
import { cut, startList } from './list-server.js';

const postgres = ownPostgres();

test('a poll does not wait for a running handler, and its watermark stays before the event until it is stored', async () => {
  const at = (minutesAgo: number) => new Date(Date.now() - minutesAgo * 60_000);
  const settled = (minutesAgo: number) =>
    exampleEvent('transfer.settled', { created_at: at(minutesAgo).toISOString() });
  // The poll finds an older event and a younger one as well.
  const [running, ...found] = [settled(20), settled(25), settled(15)];
  const [begun, ends] = [signal(), signal()];
  const pool = postgres.open({ max: 4 });
  const receiver = createReceiver({
    ...{ secret: 'x', inbox: postgresInbox(pool, { transactional: true }) },
    handlers: {
      'transfer.settled': async ({ id }) => {
        if (id !== running.id) return;
        begun.resolve();
        await ends.promise;
      },
    },
  });
  const events = [...found, running];
  const client = await startList((asked) => cut(events, asked));
  const poller = createPoller({ client, receiver, since: at(60), lagMs: 60_000 });
  const delivered = receiver.accept(running, 'push');
  await begun.promise;

  const before = await poller.pollOnce();
  expect(before).toMatchObject({ new: 2, handled: 2, waiting: 1, proven: true });
  expect(Date.parse(before.watermark ?? '')).toBe(Date.parse(running.created_at) - 1);

  ends.resolve();
  expect((await delivered).kind).toBe('handled');
  const after = await poller.pollOnce();
  expect(after).toMatchObject({ new: 0, proven: true });
  expect(Date.parse(after.watermark ?? '')).toBeGreaterThan(Date.parse(running.created_at));

  await receiver.close();
});

test('the polls of three processes, each of which runs what is due, count every missed event as recovered once', async () => {
  const at = new Date(Date.now() - 25 * 60_000).toISOString();
  const events = Array.from({ length: 60 }, () => exampleEvent('transfer.settled', { created_at: at }));
  const client = await startList((asked) => cut(events, asked));
  const ran: number[] = [0, 0, 0];
  const processes = ran.map((_, index) => {
    const inbox = postgresInbox(postgres.open({ max: 4 }));
    const receiver = createReceiver({
      ...{ secret: 'x', inbox },
      handlers: {
        'transfer.settled': async () => {
          await setTimeout(5);
          ran[index] = (ran[index] ?? 0) + 1;
        },
      },
    });
    receiver.start({ intervalMs: 10 });
    onTestFinished(() => receiver.close());
    return createPoller({ client, receiver, since: new Date(Date.now() - 3_600_000), lagMs: 60_000 });
  });
  let recovered = 0;
  const isDone = () => ran.reduce((sum, count) => sum + count, 0) === events.length;
  while (!isDone() || recovered === 0) {
    const reports = await Promise.all(processes.map((poller) => poller.pollOnce()));
    for (const report of reports) recovered += report.recovered;
  }
  expect(ran.filter((count) => count > 0).length).toBeGreaterThan(1);
  expect(recovered).toBe(events.length);
});
