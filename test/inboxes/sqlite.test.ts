import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { describe, test } from 'vitest';
import { inboxContract } from '../contracts/index.js';
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
  });
}
