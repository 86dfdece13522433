import { expect, test } from 'vitest';
import { atNight } from '../nightly.js';
import { checkBooks } from './check-books.js';

const BOOKS = atNight(10_000, 1_000);

test(`in ${BOOKS} random books every planted error is found, and nothing else`, async () => {
  let [complete, found] = [0, 0];
  for (let seed = 1; seed <= BOOKS; seed += 1) {
    const checked = await checkBooks(seed, { dryRun: seed % 2 === 0 });
    complete += checked.complete ? 1 : 0;
    found += checked.found;
  }
  console.log(`${BOOKS} books, ${complete} of them complete, with ${found} planted errors, all found.`);
  expect(complete).toBeGreaterThan(0.7 * BOOKS);
  expect(complete).toBeLessThan(BOOKS);
}, 600_000);
