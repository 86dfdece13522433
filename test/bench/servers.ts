/** Requests per second and p99: each adapter, a handler written by hand, and what people use today. */
import { createHmac } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import autocannon from 'autocannon';
import { type Listening, listenAsProcess } from '../child.js';
import { makeBody } from './delivery.js';
import { median } from './measurement.js';
import { SECRET } from './secret.js';
import type { ServerName } from './server.js';

/** One server under load. */
export interface LoadResult {
  readonly framework: string;
  readonly name: string;
  readonly requestsPerSecond: number;
  readonly p99Ms: number;
  /** Of the requests per second of the handler written by hand, in the same round: the median over the rounds. */
  readonly ratio: number;
}

/** By framework; the first of each is written by hand. */
const SERVERS: Readonly<Record<string, readonly ServerName[]>> = {
  'node:http': ['node by hand', 'node stablehooks', 'node octokit'],
  'Express 5': ['express by hand', 'express stablehooks', 'express stripe'],
  'Fastify 5': ['fastify by hand', 'fastify stablehooks'],
  'Hono on Node': ['hono by hand', 'hono stablehooks'],
};

/** Rounds take turns among the servers of a framework, so that all of them meet the same minutes of the machine. */
export async function measureServers({
  rounds,
  seconds,
}: {
  readonly rounds: number;
  readonly seconds: number;
}): Promise<readonly LoadResult[]> {
  const results: LoadResult[] = [];
  for (const [framework, names] of Object.entries(SERVERS)) {
    const running = await Promise.all(names.map(start));
    const loads: { readonly perSecond: number; readonly p99Ms: number }[][] = names.map(() => []);
    try {
      for (let round = 0; round <= rounds; round++) {
        for (const [index, server] of running.entries()) {
          const load = await loadServer(server.address, seconds);
          if (round > 0) loads[index]?.push(load);
        }
      }
    } finally {
      await Promise.all(running.map((server) => server.stop()));
    }
    const [byHand = []] = loads;
    for (const [index, name] of names.entries()) {
      const own = loads[index] ?? [];
      results.push({
        framework,
        name,
        requestsPerSecond: median(own.map(({ perSecond }) => perSecond)),
        p99Ms: median(own.map(({ p99Ms }) => p99Ms)),
        ratio: median(
          own.map(({ perSecond }, round) => perSecond / (byHand[round]?.perSecond ?? Number.NaN)),
        ),
      });
    }
  }
  return results;
}

function start(name: ServerName): Promise<Listening> {
  const program = fileURLToPath(new URL('server.ts', import.meta.url));
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  return listenAsProcess({ args: ['--import', 'tsx', program, name], cwd, env: { NODE_ENV: 'production' } });
}

/** Ten connections as fast as they are answered; every delivery is another event, so that none is a duplicate. */
async function loadServer(url: string, seconds: number) {
  const { requests, latency, non2xx, errors } = await autocannon({
    url,
    connections: 10,
    duration: seconds,
    requests: [
      { method: 'POST', path: '/hooks', setupRequest: (request) => ({ ...request, ...nextDelivery() }) },
    ],
  });
  const failed = non2xx + errors;
  if (failed > 0) throw new Error(`${failed} deliveries to ${url} were not answered by 2xx.`);
  return { perSecond: requests.average, p99Ms: latency.p99 };
}

const ID = 'evt_00000000000000000000';
const TEMPLATE = makeBody(ID, 300).toString();
let sent = 0;

function nextDelivery() {
  sent += 1;
  const body = TEMPLATE.replace(ID, `evt_${String(sent).padStart(ID.length - 4, '0')}`);
  const mac = (text: string) => createHmac('sha256', SECRET).update(text).digest('hex');
  const seconds = Math.floor(Date.now() / 1000);
  const signature = mac(body);
  const headers = {
    'content-type': 'application/json',
    'x-service-signature': signature,
    'x-hub-signature-256': `sha256=${signature}`,
    'x-github-event': 'ping',
    'x-github-delivery': String(sent),
    'stripe-signature': `t=${seconds},v1=${mac(`${seconds}.${body}`)}`,
  };
  return { body, headers };
}
