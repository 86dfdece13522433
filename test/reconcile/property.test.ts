import { expect, test } from 'vitest';
import { checkBooks } from './check-books.js';

test('in 100 random books every planted error is found, and nothing else', async () => {
  const checked: Awaited<ReturnType<typeof checkBooks>>[] = [];
  for (let seed = 20_001; seed <= 20_100; seed += 1)
    checked.push(await checkBooks(seed, { dryRun: seed % 2 === 0 }));
  expect(checked.some(({ complete }) => complete)).toBe(true);
  expect(checked.some(({ complete }) => !complete)).toBe(true);
});
