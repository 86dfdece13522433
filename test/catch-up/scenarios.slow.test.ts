import { expect, test } from 'vitest';
import { SCENARIOS } from './scenarios.js';

test.each(SCENARIOS)(
  'the poller meets its requirement for "$title": $required',
  { timeout: 300_000 },
  async ({ run }) => {
    expect(await run()).toEqual([]);
  },
);
