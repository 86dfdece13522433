/** The clock of the machine jumps while a handler runs, as after a correction or a suspended machine. */
import Database from 'libsql';
import { createReceiver, type Inbox, memoryInbox } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { expect, test } from 'vitest';
import { silent, someEvent } from './claimed.js';
import { freshPath } from './sqlite-drivers.js';

const LEASE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** The wall clock, in epoch ms, and the time that has elapsed. */
const startClock = () => {
  const clock = { wall: Date.now(), past: 0 };
  return { clock, runtime: { now: () => clock.wall, elapsed: () => clock.past } };
};

type Runtime = ReturnType<typeof startClock>['runtime'];

const INBOXES: readonly (readonly [name: string, open: (runtime: Runtime) => Inbox | undefined])[] = [
  ['sqliteInbox', (runtime) => sqliteInbox(new Database(freshPath()), { runtime })],
  ['memoryInbox', (runtime) => memoryInbox({ runtime })],
  ['the inbox of a receiver without one', () => undefined],
];

test.each(INBOXES)(
  'over %s, a handler runs alone for as long as its lease, however the clock jumps',
  async (_, open) => {
    const { clock, runtime } = startClock();
    const inbox = open(runtime);
    const ends: (() => void)[] = [];
    const receiver = createReceiver({
      ...{ secret: 'x', logger: silent, runtime, leaseMs: LEASE_MS, handlerTimeoutMs: LEASE_MS - 1 },
      ...(inbox && { inbox }),
      handlers: { 'transfer.settled': () => new Promise<void>((resolve) => ends.push(resolve)) },
    });
    const event = someEvent();
    const first = receiver.handle(event, 'push');
    await expect.poll(() => ends.length).toBe(1);

    for (const jump of [2 * HOUR_MS, -HOUR_MS, HOUR_MS]) {
      clock.wall += jump;
      expect(await receiver.handle(event, 'push')).toMatchObject({ kind: 'busy' });
      if (inbox) expect(await receiver.redrive()).toMatchObject({ handled: 0 });
    }
    expect(ends).toHaveLength(1);

    // The time of the lease is over.
    clock.wall += LEASE_MS;
    clock.past += LEASE_MS;
    const second = receiver.handle(event, 'push');
    await expect.poll(() => ends.length).toBe(2);
    for (const end of ends) end();
    expect(await second).toMatchObject({ kind: 'handled' });
    expect(await first).not.toMatchObject({ kind: 'handled' });
  },
);
