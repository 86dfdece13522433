/** The whole benchmark, once the peers and the tarball are installed: prints tables, and writes nothing. */
import { cpus } from 'node:os';
import { type Results, toBudgetTable } from './budgets.js';
import { measureCatchUp } from './catch-up.js';
import { measureExactlyOnce } from './exactly-once.js';
import { digits, sizeName, toTable } from './format.js';
import type { Measured } from './measurement.js';
import { measureServers } from './servers.js';
import { measureTelemetry } from './telemetry.js';
import { measureFilling, measureVerify } from './verify.js';
import { measureBundles } from './weight.js';

const quick = process.argv.includes('--quick');

const results: Results = {
  sizes: await measureVerify({ rounds: quick ? 1 : 11 }),
  filling: await measureFilling({ rounds: quick ? 1 : 5 }),
  loads: await measureServers(quick ? { rounds: 1, seconds: 1 } : { rounds: 17, seconds: 1 }),
  telemetry: await measureTelemetry({ rounds: quick ? 1 : 9 }),
  bundles: await measureBundles(),
  exactlyOnce: await measureExactlyOnce(quick ? { rounds: 1, events: 100 } : { rounds: 7, events: 2_000 }),
  backlogs: await measureCatchUp(quick ? [10_000] : [10_000, 100_000, 1_000_000]),
};

const times = (ratio: number) => `${ratio.toFixed(2)}×`;
const toRow = ({ name, p50Us, ratio }: Measured) => [name, digits(p50Us), times(ratio)];
const { sizes } = results;

const TABLES = {
  'Verify and parse one delivery: median µs, and of the bare floor': toTable(
    ['', ...sizes.map(({ sizeBytes }) => sizeName(sizeBytes))],
    (sizes[0]?.measured ?? []).map(({ name }, index) => [
      name,
      ...sizes.map(({ measured }) => {
        const { p50Us = Number.NaN, ratio = Number.NaN } = measured[index] ?? {};
        return `${digits(p50Us)} (${times(ratio)})`;
      }),
    ]),
  ),
  'A memory inbox that fills and evicts, 300 B: median µs, and of the bare floor': toTable(
    ['', 'µs', 'ratio'],
    results.filling.map(toRow),
  ),
  'One server, ten connections, 300 B: processor time per request, and of the server by hand': toTable(
    ['', 'processor µs', 'ratio', 'requests/s', 'p99 ms'],
    results.loads.map(({ framework, name, cpuUs, ratio, requestsPerSecond, p99Ms }) => [
      ...[`${framework}: ${name}`, digits(cpuUs), times(ratio), digits(requestsPerSecond), String(p99Ms)],
    ]),
  ),
  'Telemetry: `receive`, 300 B, memory inbox: median µs, and of a delivery without telemetry': toTable(
    ['', 'µs', 'ratio'],
    results.telemetry.map(toRow),
  ),
  'Bundle for the edge: minified and compressed': toTable(
    ['', 'kB'],
    results.bundles.map(({ name, gzipBytes }) => [name, (gzipBytes / 1_000).toFixed(2)]),
  ),
  'Exactly once in a database: events per second, and of the transaction by hand': toTable(
    ['', 'events/s', 'ratio'],
    results.exactlyOnce.map(({ store, lanes, name, perSecond, ratio }) => [
      ...[`${store}, ${lanes} at a time: ${name}`, digits(perSecond), times(ratio)],
    ]),
  ),
  'Catch-up: a backlog from the list into an SQLite file and through the handlers': toTable(
    ['', 'events', 'events/s', 'peak MB'],
    results.backlogs.map(({ way, count, ms, peakBytes }) => [
      ...[way, count.toLocaleString('en-US'), digits((count / ms) * 1_000), digits(peakBytes / 1e6)],
    ]),
  ),
  Budgets: toBudgetTable(results),
};

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}.`);
for (const [title, table] of Object.entries(TABLES)) console.log(`\n## ${title}\n\n${table}`);
