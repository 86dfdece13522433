/** How long an answer takes under `acknowledge: 'recorded'`: while handlers run for 30 s, and when there are none. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { exampleEvent } from 'stablehooks/testing';
import { type Listening, listenAsProcess } from '../child.js';
import { median, p99 } from './measurement.js';
import type { HandlersName } from './recorded-server.js';
import { SECRET } from './secret.js';
import { CONNECTIONS, STORES, type Store } from './stores.js';

/** What was measured over one store. */
export interface RecordedResult {
  readonly store: 'SQLite' | 'Postgres';
  /** What was timed. */
  readonly name: string;
  /** Medians over the rounds, in ms. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of the p99 of recording alone over HTTP, in the same round: the median over the rounds. */
  readonly ratio: number;
}

/** Recording alone first: the others are compared with it. */
const SERVERS: Readonly<Record<string, HandlersName>> = {
  'over HTTP, recorded and not run': 'none',
  'over HTTP, handlers that return at once': 'at once',
  'over HTTP, handlers of 30 s': '30 s',
};

type Times = readonly number[];
type Way = (count: number) => Promise<Times>;

export async function measureRecorded({
  rounds,
  deliveries,
}: {
  readonly rounds: number;
  readonly deliveries: number;
}): Promise<readonly RecordedResult[]> {
  const results: RecordedResult[] = [];
  for (const name of ['SQLite', 'Postgres'] as const) {
    const store = await STORES[name]();
    const servers: Listening[] = [];
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    try {
      const ways: Record<string, Way> = {};
      for (const [way, handlers] of Object.entries(SERVERS)) {
        const server = await start(name, store, handlers);
        servers.push(server);
        ways[way] = (count) => deliverTo(server.address, { count, agent });
      }
      ways['`inbox.claim` in this process'] = (count) => claim(store, count);
      for (const each of await takeTurns(ways, { rounds, deliveries }))
        results.push({ store: name, ...each });
    } finally {
      agent.destroy();
      await Promise.all(servers.map((server) => server.stop()));
      await store.close();
    }
  }
  return results;
}

/** Rounds take turns, so that all meet the same minutes of the machine; the first round warms up. */
async function takeTurns(
  ways: Readonly<Record<string, Way>>,
  { rounds, deliveries }: { readonly rounds: number; readonly deliveries: number },
): Promise<readonly Omit<RecordedResult, 'store'>[]> {
  const names = Object.keys(ways);
  const found = new Map<string, { p50Ms: number; p99Ms: number }[]>(names.map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const name of names) {
      const times = (await ways[name]?.(deliveries)) ?? [];
      if (round > 0) found.get(name)?.push({ p50Ms: median(times), p99Ms: p99(times) });
    }
  }
  const [alone = []] = found.values();
  return [...found].map(([name, each]) => ({
    name,
    p50Ms: median(each.map(({ p50Ms }) => p50Ms)),
    p99Ms: median(each.map(({ p99Ms }) => p99Ms)),
    ratio: median(each.map(({ p99Ms }, round) => p99Ms / (alone[round]?.p99Ms ?? Number.NaN))),
  }));
}

function start(name: string, store: Store, handlers: HandlersName): Promise<Listening> {
  const program = fileURLToPath(new URL('recorded-server.ts', import.meta.url));
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const args = ['--import', 'tsx', program, name, store.address, handlers];
  return listenAsProcess({ args, cwd, env: { NODE_ENV: 'production' } });
}

/** Delivers new events, so many at a time as there are connections; resolves to how long each answer took, in ms. */
async function deliverTo(
  url: string,
  { count, agent }: { readonly count: number; readonly agent: Agent },
): Promise<Times> {
  const deliveries = Array.from({ length: count }, () => {
    const body = JSON.stringify(exampleEvent('transfer.settled'));
    const signature = createHmac('sha256', SECRET).update(body).digest('hex');
    return { body, headers: { 'content-type': 'application/json', 'x-service-signature': signature } };
  });
  return inLanes(deliveries, async ({ body, headers }) => {
    const sent = request(`${url}/hooks`, { method: 'POST', headers, agent }).end(body);
    const [response] = await once(sent, 'response');
    if (response.statusCode !== 202) throw new Error(`A delivery was answered ${response.statusCode}.`);
    response.resume();
    await once(response, 'end');
  });
}

function claim({ inbox }: Store, count: number): Promise<Times> {
  const events = Array.from({ length: count }, () => exampleEvent('transfer.settled'));
  return inLanes(events, (event) => inbox.claim(event, { leaseMs: 60_000, origin: 'push' }));
}

/** Times a step for each of so many items, several at a time. */
async function inLanes<Item>(items: readonly Item[], step: (item: Item) => Promise<unknown>): Promise<Times> {
  const times: number[] = [];
  const waiting = items.values();
  const lane = async () => {
    for (const item of waiting) {
      const startedAt = performance.now();
      await step(item);
      times.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, lane));
  return times;
}
