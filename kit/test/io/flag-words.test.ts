import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { FLAGS, toFlagWords } from '../../src/io/flag-words.js';

test('messages name flags instead of options, and durations as flags take them', () => {
  expect(toFlagWords('Set lagMs to 1500 and intervalMs to 60000, or raise maxLimit.')).toBe(
    'Set --lag to 1500ms and the time between polls to 1m, or raise --max-limit.',
  );
  expect(toFlagWords('Lower intervalMs.', '--interval')).toBe('Lower --interval.');
  expect(toFlagWords('`faults.dateSkewMs` must be at least -3162240000000.')).toBe(
    '--date-skew must be at least -36600d.',
  );
});

test('a word that is not an option of a command is not made a flag', () => {
  const text = 'The `Date` header is late; `signal` and leaseMs stay. Check the token and the limit.';
  expect(toFlagWords(text)).toBe(text);
});

test('every flag that a message can name exists', async () => {
  const page = await readFile(new URL('../../../docs/command-line-flags.md', import.meta.url), 'utf8');
  const known = new Set(page.match(/(?<=`)--[\w-]+/g));
  expect(Object.values(FLAGS).filter((flag) => !known.has(flag))).toEqual([]);
});

test('an option that no command has a flag for is left out', () => {
  expect(
    toFlagWords('GET /v1 was not answered within 10000 ms (timeoutMs). Check that the service is up.'),
  ).toBe('GET /v1 was not answered within 10000 ms. Check that the service is up.');
  expect(toFlagWords('The body is larger than 67108864 bytes (maxBodyBytes).')).toBe(
    'The body is larger than 67108864 bytes.',
  );
});
