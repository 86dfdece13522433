/** A short chaos over each engine: the ledger equals the service's list, none lost, none twice. */
import { expect, test } from 'vitest';
import { describeWithRedis } from '../services/with-redis.js';
import { runChaos } from './chaos.js';

describeWithRedis('chaos', () => {
  // Beside each other: both wait for leases and locks most of the time.
  test.concurrent.each(['bullmq', 'pg-boss'] as const)(
    'over %s: 300 events, processes killed, servers restarted, and the ledger equals the list',
    { timeout: 90_000 },
    async (engine) => {
      const pace = { eventsPerSecond: 75, killEveryMs: 1_000, settleTimeoutMs: 60_000 };
      const report = await runChaos({ engine, events: 300, ...pace });
      console.log(engine, report);
      expect(report).toMatchObject({ fired: 300, lost: [], twice: [], invented: [], restarts: 2 });
      expect(report.kills).toBeGreaterThan(2);
    },
  );
});
