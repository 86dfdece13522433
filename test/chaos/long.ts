/** The long chaos, 10,000 events over each engine: `npm run test:chaos`, or `tsx test/chaos/long.ts 2000 bullmq`. */
import { type ChaosOptions, runChaos } from './chaos.js';

const [events = '10000', ...chosen] = process.argv.slice(2);
const engines: readonly ChaosOptions['engine'][] = ['bullmq', 'pg-boss'];

for (const engine of engines) {
  if (chosen.length > 0 && !chosen.includes(engine)) continue;
  const pace = { eventsPerSecond: 150, killEveryMs: 1_000, settleTimeoutMs: 300_000 };
  const report = await runChaos({ engine, events: Number(events), ...pace });
  console.log(engine, report);
  const { fired, lost, twice, invented } = report;
  const right = fired === Number(events) && lost.length + twice.length + invented.length === 0;
  console.log(right ? 'The ledger equals the list.' : 'WRONG: the ledger differs from the list.');
  if (!right) process.exitCode = 1;
}
