/**
 * Processes are killed and servers restarted while events come in; at the end the ledger equals the service's list.
 *
 * `npm run test:chaos` sends 10,000 events through each fleet. CHAOS_EVENTS sets another number, 1,000 or more.
 */
import { expect, test } from 'vitest';
import { readCount } from '../read-count.js';
import { describeWithRedis } from '../services/with-redis.js';
import { runChaos } from './chaos.js';

const events = readCount('CHAOS_EVENTS', process.env['CHAOS_EVENTS'] ?? '10000', { min: 1_000 });
const pace = { eventsPerSecond: 150, eventsPerKill: 150, settleTimeoutMs: 300_000 };
const timeout = pace.settleTimeoutMs + (events / pace.eventsPerSecond) * 10_000;

describeWithRedis('chaos', () => {
  // At the same time: each fleet mostly waits for its own processes and servers.
  test.concurrent.each([
    { engine: 'bullmq', store: 'Postgres' },
    { engine: 'pg-boss', store: 'Postgres' },
    { engine: 'bullmq', store: 'MariaDB' },
  ] as const)(
    `over $engine and $store, each of ${events} events takes effect once while processes are killed and servers restart`,
    { timeout },
    async (fleet) => {
      const report = await runChaos({ ...fleet, events, ...pace });
      console.log(fleet, report);
      expect(report).toMatchObject({ fired: events, lost: [], twice: [], invented: [], restarts: 2 });
      expect(report.kills).toBeGreaterThan(2);
    },
  );
});
