/** A short chaos over each engine: the ledger equals the service's list, none lost, none twice. */
import { expect, test } from 'vitest';
import { describeWithRedis } from '../services/with-redis.js';
import { runChaos } from './chaos.js';

describeWithRedis('chaos', () => {
  // Beside each other: both wait for leases and locks most of the time.
  test.concurrent.each(['bullmq', 'pg-boss'] as const)(
    'over %s: 200 events, processes killed, servers restarted, and the ledger equals the list',
    { timeout: 90_000 },
    async (engine) => {
      const pace = { eventsPerSecond: 60, killEveryMs: 700, patienceMs: 60_000 };
      const report = await runChaos({ engine, events: 200, ...pace });
      console.log(engine, report);
      expect(report).toMatchObject({ fired: 200, lost: [], twice: [], invented: [], restarts: 2 });
      expect(report.kills).toBeGreaterThan(2);
    },
  );
});
