/** The whole benchmark, once the peers and the tarball are installed: prints the tables, and writes them. */
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { toBudgetTable } from './budgets.js';
import { measureCatchUp } from './catch-up.js';
import { drawCharts } from './charts.js';
import { measureClaims } from './claims.js';
import { digits, toTable } from './format.js';
import { measureInspector } from './inspector.js';
import { measureKeys } from './keys.js';
import { writePagesWith } from './pages.js';
import { measureRecorded } from './recorded.js';
import { measureServers } from './servers.js';
import { measureTelemetry } from './telemetry.js';
import { measureVerify } from './verify.js';
import { measureBundles, measureImports } from './weight.js';

const quick = process.argv.includes('--quick');

const sizes = await measureVerify({ rounds: quick ? 1 : 11 });
const loads = await measureServers(quick ? { rounds: 1, seconds: 1 } : { rounds: 17, seconds: 1 });
const telemetry = await measureTelemetry({ rounds: quick ? 1 : 9 });
const bundles = await measureBundles();
const imports = await measureImports({ rounds: quick ? 1 : 9 });
const { claims, prunedSize } = await measureClaims(
  quick ? { rounds: 1, events: 200, pruned: 1_000 } : { rounds: 7, events: 2_000, pruned: 500_000 },
);
const keys = await measureKeys(
  quick ? { rounds: 1, events: 100, hot: 100 } : { rounds: 3, events: 800, hot: 2_000 },
);
const recorded = await measureRecorded(
  quick ? { rounds: 1, deliveries: 50 } : { rounds: 3, deliveries: 500 },
);
const inspected = await measureInspector(
  quick ? { rounds: 1, deliveries: 200 } : { rounds: 7, deliveries: 2_000 },
);
const backlogs = await measureCatchUp(quick ? [10_000] : [10_000, 100_000, 1_000_000]);

function sizeName(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${bytes / 1_000} kB` : `${bytes / 1_000_000} MB`;
}

const names = sizes[0]?.measured.map(({ name }) => name) ?? [];

const tables = [
  '## Verify and parse one delivery: median µs, and of the bare floor',
  toTable(
    ['', ...sizes.map(({ sizeBytes }) => sizeName(sizeBytes))],
    names.map((name, index) => [
      name,
      ...sizes.map(({ measured }) => {
        const { p50Us = Number.NaN, ratio = Number.NaN } = measured[index] ?? {};
        return `${digits(p50Us)} (${ratio.toFixed(2)}×)`;
      }),
    ]),
  ),
  '## One server, ten connections, 300 B: processor time per request, and of the server written by hand with the same promises',
  toTable(
    ['', 'processor µs', 'ratio', 'requests/s', 'p99 ms'],
    loads.map(({ framework, name, cpuUs, ratio, requestsPerSecond, p99Ms }) => [
      `${framework}: ${name}`,
      digits(cpuUs),
      `${ratio.toFixed(2)}×`,
      digits(requestsPerSecond),
      String(p99Ms),
    ]),
  ),
  '## Telemetry: `receive`, 300 B, memory inbox: median µs, and of a delivery without telemetry',
  toTable(
    ['', 'µs', 'ratio'],
    [
      ...telemetry.measured.map(({ name, p50Us, ratio }) => [name, digits(p50Us), `${ratio.toFixed(2)}×`]),
      [
        'the calls of a receiver without telemetry',
        digits(telemetry.offUs),
        `${telemetry.offRatio.toFixed(3)}×`,
      ],
    ],
  ),
  '## Bundle for the edge: minified and compressed, zod left out',
  toTable(
    ['', 'kB'],
    bundles.map(({ name, gzipBytes }) => [name, (gzipBytes / 1_000).toFixed(2)]),
  ),
  '## Catch-up: a backlog from the list into an SQLite file and through the handlers',
  toTable(
    ['', 'events', 'events/s', 'peak MB'],
    backlogs.map(({ way, count, ms, peakBytes }) => [
      way,
      count.toLocaleString('en-US'),
      digits((count / ms) * 1_000),
      digits(peakBytes / 1e6),
    ]),
  ),
  '## Claims in Postgres, and a bare INSERT … ON CONFLICT of the same rows',
  toTable(
    ['connections', 'claims/s', 'bare inserts/s', 'ratio'],
    claims.map(({ connections, claimsPerSecond, insertsPerSecond, ratio }) => [
      String(connections),
      digits(claimsPerSecond),
      digits(insertsPerSecond),
      `${ratio.toFixed(2)}×`,
    ]),
  ),
  `A done event, pruned, with an id of 36 characters takes ${Object.entries(prunedSize)
    .map(([part, bytes]) => `${Math.round(bytes)} B (${part})`)
    .join(' + ')}.`,
  '## Ordering keys: events claimed and completed per second, and the events of one hot key in turn',
  toTable(
    ['', 'without keys', 'a key each', 'ratio', 'hot key: ms each, first quarter', 'last quarter'],
    keys.map(({ store, withoutKeys, withKeys, ratio, firstMs, lastMs }) => [
      store,
      digits(withoutKeys),
      digits(withKeys),
      `${ratio.toFixed(2)}×`,
      digits(firstMs),
      digits(lastMs),
    ]),
  ),
  "## `acknowledge: 'recorded'`, ten connections: ms until the 202, and its p99 of recording alone",
  toTable(
    ['', 'p50 ms', 'p99 ms', 'ratio'],
    recorded.map(({ store, name, p50Ms, p99Ms, ratio }) => [
      `${store}: ${name}`,
      digits(p50Ms),
      digits(p99Ms),
      `${ratio.toFixed(2)}×`,
    ]),
  ),
  '## Deliveries of a sandbox while pages of the inspector are open',
  toTable(
    ['pages', 'deliveries/s', 'ratio'],
    inspected.map(({ pages, deliveriesPerSecond, ratio }) => [
      String(pages),
      digits(deliveriesPerSecond),
      `${ratio.toFixed(2)}×`,
    ]),
  ),
  '## Import in a fresh process: median ms, and of zod/mini',
  toTable(
    ['', 'ms', 'ratio'],
    imports.map(({ name, p50Ms, ratio }) => [name, digits(p50Ms), `${ratio.toFixed(2)}×`]),
  ),
];

const machine = `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`;
const measured = `<!-- Written by \`npm run bench\`. -->\n# Results\n\n${machine}.\n\n${tables.join('\n\n')}\n`;
const page = `${measured}\n## Budgets\n\n${toBudgetTable(measured)}\n`;
console.log(page);

if (quick) {
  // Nothing is written, but what draws the charts must understand the tables.
  drawCharts(page);
} else {
  const results = new URL('results/', import.meta.url);
  await mkdir(results, { recursive: true });
  await writeFile(new URL('results.md', results), page);
  writePagesWith(page);
}
