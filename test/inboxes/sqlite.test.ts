import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, test } from 'vitest';
import { inboxClockContract, inboxContract } from '../contracts/index.js';
import { drivers, freshPath } from './sqlite-drivers.js';

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
