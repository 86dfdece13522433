/**
 * Processes are killed and servers restarted while events come in; at the end the ledger equals the service's list.
 *
 * `npm run test:chaos` sends 10,000 events over each queue. CHAOS_EVENTS sets another number, 1,000 or more.
 */
import { expect, test } from 'vitest';
import { readCount } from '../read-count.js';
import { describeWithRedis } from '../services/with-redis.js';
import { runChaos } from './chaos.js';

const events = readCount('CHAOS_EVENTS', process.env['CHAOS_EVENTS'] ?? '10000', { min: 1_000 });
const pace = { eventsPerSecond: 150, eventsPerKill: 150, settleTimeoutMs: 300_000 };
const timeout = pace.settleTimeoutMs + (events / pace.eventsPerSecond) * 10_000;

describeWithRedis('chaos', () => {
  // At the same time: each engine mostly waits for its own processes and servers.
  test.concurrent.each(['bullmq', 'pg-boss'] as const)(
    `over %s, each of ${events} events takes effect once while processes are killed and servers restart`,
    { timeout },
    async (engine) => {
      const report = await runChaos({ engine, events, ...pace });
      console.log(engine, report);
      expect(report).toMatchObject({ fired: events, lost: [], twice: [], invented: [], restarts: 2 });
      expect(report.kills).toBeGreaterThan(2);
    },
  );
});
