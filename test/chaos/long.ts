/** The long run, 10,000 events with each engine: `npm run test:chaos`, or `tsx test/chaos/long.ts 2000 bullmq`. */
import { type ChaosOptions, runChaos } from './chaos.js';

const [events = '10000', ...chosen] = process.argv.slice(2);
const engines: readonly ChaosOptions['engine'][] = ['bullmq', 'pg-boss'];

for (const engine of engines) {
  if (chosen.length > 0 && !chosen.includes(engine)) continue;
  const pace = { eventsPerSecond: 150, killEveryMs: 1_000, settleTimeoutMs: 300_000 };
  const report = await runChaos({ engine, events: Number(events), ...pace });
  console.log(engine, report);
  const { fired, lost, duplicated, unlisted } = report;
  const equal = fired === Number(events) && lost.length + duplicated.length + unlisted.length === 0;
  console.log(equal ? 'ok: the ledger equals the list.' : 'FAILED: the ledger differs from the list.');
  if (!equal) process.exitCode = 1;
}
