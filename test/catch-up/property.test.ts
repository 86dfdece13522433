/** The properties of survey.slow.test.ts on a few servers, always the same, so that every mutant can meet them. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { simulatedServer } from './simulated-list.js';
import { calmServer, expectProvenPolls, pollServer } from './simulated-polls.js';

test('on random servers, no event before a watermark and outside the gaps is missing', () => {
  const seen = { proven: 0, plainLost: 0 };
  fc.assert(
    fc.property(simulatedServer, (server) => {
      const { missed, polls, plainLoses } = pollServer(server);
      seen.proven += polls.at(-1)?.proven === true ? 1 : 0;
      seen.plainLost += plainLoses ? 1 : 0;
      expect(missed).toBe(0);
    }),
    { numRuns: 100, seed: 1 },
  );
  // The servers are such that polls prove something, and that a plain poll of the newest 50 loses events.
  expect(seen.proven).toBeGreaterThan(50);
  expect(seen.plainLost).toBeGreaterThan(30);
});

test('a calm server that lists its newest events is proven at each poll, and an outage leaves one gap at most', () => {
  fc.assert(fc.property(calmServer, expectProvenPolls), { numRuns: 6, seed: 1 });
});
