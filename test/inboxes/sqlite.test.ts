import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, expect, test } from 'vitest';
import { inboxClockContract, inboxContract } from '../contracts/index.js';
import { claimed } from './claimed.js';
import { drivers, freshPath } from './sqlite-drivers.js';

const TAKE = { limit: 9, visibilityTimeoutMs: 60_000, types: ['transfer.settled'] } as const;

for (const { name: driver, open } of drivers) {
  describe(`SQLite inbox over ${driver}`, () => {
    for (const { name, run } of inboxContract) {
      test(name, async () => {
        const path = freshPath();
        const [first, second] = [open(path), open(path)];
        try {
          await run({ inbox: sqliteInbox(first), second: sqliteInbox(second) });
        } finally {
          first.close();
          second.close();
        }
      });
    }

    test('a process that has looked before notices a lease that another one writes with a clock ahead', async () => {
      const path = freshPath();
      const [first, second] = [open(path), open(path)];
      const clock = { now: Date.now(), elapsed: 0 };
      const runtime = { now: () => clock.now, elapsed: () => clock.elapsed };
      try {
        const inbox = sqliteInbox(first, { runtime });
        expect(await inbox.takeDue(TAKE)).toEqual([]);
        const ahead = sqliteInbox(second, { runtime: { now: () => clock.now + 86_400_000 } });
        const { id } = await claimed(ahead);
        for (const at of ['now', 'elapsed'] as const) clock[at] += 60_000;
        expect(await inbox.takeDue(TAKE)).toMatchObject([{ id }]);
      } finally {
        first.close();
        second.close();
      }
    });

    for (const { name, run } of inboxClockContract) {
      test(name, async () => {
        const path = freshPath();
        const [first, second] = [open(path), open(path)];
        let now = Date.now();
        const runtime = { now: () => now };
        try {
          const inboxes = {
            inbox: sqliteInbox(first, { runtime }),
            second: sqliteInbox(second, { runtime }),
          };
          await run({ ...inboxes, setBack: (ms) => (now -= ms) });
        } finally {
          first.close();
          second.close();
        }
      });
    }
  });
}
