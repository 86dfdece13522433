/** The budgets of the package, most of them ratios of one run, and whether this run keeps them. */
import type { CatchUpResult, Way } from './catch-up.js';
import type { ExactlyOnceResult } from './exactly-once.js';
import { toTable } from './format.js';
import type { Measured } from './measurement.js';
import type { LoadResult } from './servers.js';
import type { SizeResult } from './verify.js';
import type { BundleResult } from './weight.js';

export interface Results {
  readonly sizes: readonly SizeResult[];
  readonly filling: readonly Measured[];
  readonly loads: readonly LoadResult[];
  readonly telemetry: readonly Measured[];
  readonly bundles: readonly BundleResult[];
  readonly exactlyOnce: readonly ExactlyOnceResult[];
  readonly backlogs: readonly CatchUpResult[];
}

interface Budget {
  readonly what: string;
  readonly bound: { readonly atLeast: number } | { readonly atMost: number };
  readonly unit: string;
  /** The figures of this run; the worst counts. */
  readonly found: readonly number[];
}

function budgetsOf(results: Results): readonly Budget[] {
  const { sizes, filling, loads, telemetry, bundles, exactlyOnce, backlogs } = results;
  const small = sizes.find(({ sizeBytes }) => sizeBytes === 300)?.measured ?? [];
  const ratios = (rows: readonly Measured[], name: RegExp) =>
    rows.filter((row) => name.test(row.name)).map(({ ratio }) => ratio);
  const own = exactlyOnce.filter(({ name }) => name === 'stablehooks');
  const once = (store: ExactlyOnceResult['store']) =>
    own.filter((row) => row.store === store).map(({ ratio }) => ratio);
  const peers = exactlyOnce.filter(({ name }) => name !== 'stablehooks' && name !== 'by hand');
  /** Figures of our own way and another way with the same backlog, the largest backlog last. */
  const besides = (way: Way, compare: (own: CatchUpResult, other: CatchUpResult) => number) =>
    backlogs
      .filter((other) => other.way === way)
      .flatMap((other) =>
        backlogs
          .filter((own) => own.way === 'stablehooks' && own.count === other.count)
          .map((own) => compare(own, other)),
      );
  return [
    {
      what: '`receive`, memory inbox, async handler, 300 B, of bare',
      bound: { atMost: 2.7 },
      unit: '×',
      found: ratios(small, /receive.*async handler/),
    },
    {
      what: 'the same while the inbox fills and evicts',
      bound: { atMost: 2.7 },
      unit: '×',
      found: ratios(filling, /receive/),
    },
    {
      what: 'verify and parse, 300 B, of bare',
      bound: { atMost: 1.3 },
      unit: '×',
      found: ratios(small, /verifySignature/),
    },
    {
      what: 'the node adapter under load, of a server by hand',
      bound: { atLeast: 0.75 },
      unit: '×',
      found: loads.filter(({ name }) => name === 'node stablehooks').map(({ ratio }) => ratio),
    },
    {
      what: 'the Express adapter under load, of a server by hand',
      bound: { atLeast: 0.85 },
      unit: '×',
      found: loads.filter(({ name }) => name === 'express stablehooks').map(({ ratio }) => ratio),
    },
    {
      what: 'exactly once in Postgres, of the transaction by hand',
      bound: { atLeast: 0.7 },
      unit: '×',
      found: once('Postgres'),
    },
    {
      what: 'exactly once in Postgres, of the fastest peer',
      bound: { atLeast: 1 },
      unit: '×',
      found: peers.flatMap((peer) =>
        own
          .filter(({ store, lanes }) => store === peer.store && lanes === peer.lanes)
          .map(({ perSecond }) => perSecond / peer.perSecond),
      ),
    },
    {
      what: 'exactly once in SQLite, of the transaction by hand',
      bound: { atLeast: 0.8 },
      unit: '×',
      found: once('SQLite'),
    },
    {
      what: '`receive` and `stablehooks/next` for the edge',
      bound: { atMost: 17 },
      unit: ' kB',
      found: bundles.filter(({ name }) => name.endsWith('next')).map(({ gzipBytes }) => gzipBytes / 1_000),
    },
    {
      what: 'catch-up of a backlog into SQLite, of the loop by hand',
      bound: { atLeast: 1 },
      unit: '×',
      found: besides('by hand', (own, other) => other.ms / own.ms),
    },
    {
      what: 'peak memory of a poll, of the pages alone',
      bound: { atMost: 1.2 },
      unit: '×',
      found: besides('the pages alone', (own, other) => own.peakBytes / other.peakBytes).slice(-1),
    },
    {
      what: 'metrics, of `receive`',
      bound: { atMost: 1.3 },
      unit: '×',
      found: ratios(telemetry, /^metrics$/),
    },
    {
      what: 'metrics and every trace, of `receive`',
      bound: { atMost: 2 },
      unit: '×',
      found: ratios(telemetry, /every trace$/),
    },
  ];
}

export function toBudgetTable(results: Results): string {
  return toTable(
    ['', 'budget', 'found', 'kept'],
    budgetsOf(results).map(({ what, bound, unit, found }) => {
      // A budget that finds nothing would be kept for nothing.
      if (found.length === 0) throw new Error(`Nothing was measured for the budget "${what}".`);
      const isFloor = 'atLeast' in bound;
      const limit = isFloor ? bound.atLeast : bound.atMost;
      const worst = isFloor ? Math.min(...found) : Math.max(...found);
      const kept = isFloor ? worst >= limit : worst <= limit;
      const figure = (value: number) =>
        `${value.toLocaleString('en-US', { maximumFractionDigits: value < 100 ? 2 : 0 })}${unit}`;
      return [what, `${isFloor ? '≥' : '≤'} ${figure(limit)}`, figure(worst), kept ? 'yes' : '**no**'];
    }),
  );
}
