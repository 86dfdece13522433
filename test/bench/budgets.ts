/** Compares the tables of `npm run bench` with the budgets: the table says what is over its budget. */
import { toTable } from './format.js';
import { numberIn, tableBelow } from './tables.js';

interface Budget {
  readonly what: string;
  /** What is allowed: at least, or at most. */
  readonly bound: { readonly atLeast: number } | { readonly atMost: number };
  readonly unit: string;
  /** What was found. The worst of them counts. */
  readonly found: readonly number[];
}

/** The table of the budgets for these tables. */
export function toBudgetTable(results: string): string {
  return toTable(
    ['', 'budget', 'found', 'kept'],
    budgets(results).map(({ what, bound, unit, found }) => {
      const isFloor = 'atLeast' in bound;
      const limit = isFloor ? bound.atLeast : bound.atMost;
      const worst = isFloor ? Math.min(...found) : Math.max(...found);
      const kept = isFloor ? worst >= limit : worst <= limit;
      const figure = (value: number) => `${value.toLocaleString('en-US')}${unit}`;
      return [what, `${isFloor ? '≥' : '≤'} ${figure(limit)}`, figure(worst), kept ? 'yes' : '**no**'];
    }),
  );
}

function budgets(results: string): readonly Budget[] {
  /** The ratios of the rows that match, in their last cell with a ratio. */
  const ratios = (heading: string, row: RegExp) =>
    rowsOf(results, heading, row).map((cells) => numberIn(cells.findLast((cell) => cell.endsWith('×'))));
  const sizes = (row: RegExp) =>
    rowsOf(results, 'Verify', row).map(([, ...cells]) =>
      cells.map((cell) => numberIn(/\((.+)×\)/.exec(cell)?.[1])),
    );
  const [verify = []] = sizes(/^stablehooks verifySignature/);
  const peers = sizes(/^(?:stripe|svix|standardwebhooks)/);
  const [receive = []] = sizes(/^stablehooks receive, memory inbox$/);
  const bundle = (row: RegExp) => rowsOf(results, 'Bundle', row).map(([, kilobytes]) => numberIn(kilobytes));
  const rates = rowsOf(results, 'Catch-up', /^stablehooks/).map(([, , rate]) => numberIn(rate));
  const keys = rowsOf(results, 'Ordering keys', /./).map(([, , , ratio]) => numberIn(ratio));
  const loads = (framework: string) => ratios('One server', new RegExp(`^${framework}: \\S+ stablehooks`));
  const server = (framework: string): Budget => ({
    what: `${framework}: requests per second of processor time, of a server by hand with the same promises`,
    bound: { atLeast: 0.85 },
    unit: '×',
    found: loads(framework),
  });
  return [
    {
      what: 'verify and parse, at every size, of bare HMAC and `JSON.parse`',
      bound: { atMost: 1.3 },
      unit: '×',
      found: verify,
    },
    {
      what: 'verify and parse, at every size, of the fastest of stripe, svix and standardwebhooks',
      bound: { atMost: 1 },
      unit: '×',
      found: verify.map((own, index) => rounded(own / Math.min(...peers.map((peer) => peer[index] ?? 0)))),
    },
    { what: '`receive`, 300 B, of bare', bound: { atMost: 2.2 }, unit: '×', found: receive.slice(0, 1) },
    ...['node:http', 'Express 5', 'Fastify 5', 'Hono on Node'].map(server),
    {
      what: 'telemetry off, of `receive`',
      bound: { atMost: 1 },
      unit: ' %',
      found: ratios('Telemetry', /^the calls/).map((ratio) => rounded(ratio * 100)),
    },
    {
      what: 'metrics on, added to `receive`',
      bound: { atMost: 10 },
      unit: ' %',
      found: ratios('Telemetry', /^metrics$/).map((ratio) => rounded((ratio - 1) * 100)),
    },
    {
      what: '`receive` and `stablehooks/next` for the edge',
      bound: { atMost: 9 },
      unit: ' kB',
      found: bundle(/next$/),
    },
    {
      what: 'verify and parse for the edge',
      bound: { atMost: 2 },
      unit: ' kB',
      found: bundle(/parseEvent$/),
    },
    {
      what: 'import of `stablehooks/express`, of `zod/mini`',
      bound: { atMost: 0.5 },
      unit: '×',
      found: ratios('Import', /^stablehooks\/express/),
    },
    { what: 'catch-up into SQLite', bound: { atLeast: 10_000 }, unit: ' events/s', found: rates },
    {
      what: 'claims in Postgres, of bare inserts',
      bound: { atLeast: 0.5 },
      unit: '×',
      found: ratios('Claims in Postgres', /./),
    },
    {
      what: 'claims with ordering keys, of those without, in every store',
      bound: { atLeast: 0.9 },
      unit: '×',
      found: keys,
    },
    {
      what: "p99 of `acknowledge: 'recorded'` while handlers take 30 s, of recording alone",
      bound: { atMost: 2 },
      unit: '×',
      found: ratios('`acknowledge', /handlers of 30 s$/),
    },
  ];
}

/** The rows without the head whose first cell matches. A budget that finds nothing would be kept for nothing. */
function rowsOf(results: string, heading: string, name: RegExp): readonly (readonly string[])[] {
  const [, ...rows] = tableBelow(results, heading);
  const found = rows.filter(([first = '']) => name.test(first));
  if (found.length === 0) throw new Error(`The results have no row ${name} below "${heading}".`);
  return found;
}

/** Without the digits that a computation adds. */
function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
