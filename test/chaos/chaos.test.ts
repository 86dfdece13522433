import { expect, test } from 'vitest';
import { describeWithRedis } from '../services/with-redis.js';
import { runChaos } from './chaos.js';

describeWithRedis('chaos', () => {
  // At the same time: both runs mostly wait for leases and locks.
  test.concurrent.each(['bullmq', 'pg-boss'] as const)(
    'with %s as the queue, each of 300 events is in the ledger once although processes are killed and servers restarted',
    { timeout: 90_000 },
    async (engine) => {
      const pace = { eventsPerSecond: 75, killEveryMs: 1_000, settleTimeoutMs: 60_000 };
      const report = await runChaos({ engine, events: 300, ...pace });
      console.log(engine, report);
      expect(report).toMatchObject({ fired: 300, lost: [], duplicated: [], unlisted: [], restarts: 2 });
      expect(report.kills).toBeGreaterThan(2);
    },
  );
});
