/** Processor time, requests per second and p99: each adapter, a server written by hand, and what people use today. */
import { fork } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import autocannon from 'autocannon';
import { makeBody } from './delivery.js';
import { median } from './measurement.js';
import { progressOf } from './progress.js';
import { SECRET } from './secret.js';
import type { ServerName } from './server.js';

export interface LoadResult {
  readonly framework: string;
  readonly name: string;
  /** Processor time of the server per request, in µs. */
  readonly cpuUs: number;
  /**
   * The processor time of the server written by hand over that of this one, in the same round: the median over the
   * rounds. 1 is as fast, 0.5 takes twice the time.
   */
  readonly ratio: number;
  readonly requestsPerSecond: number;
  readonly p99Ms: number;
}

/** By framework; the first of each is written by hand and keeps the promises of a receiver. */
const SERVERS: Readonly<Record<string, readonly ServerName[]>> = {
  'node:http': ['node by hand', 'node stablehooks', 'node octokit'],
  'Express 5': ['express by hand', 'express stablehooks', 'express stripe'],
  'Fastify 5': ['fastify by hand', 'fastify stablehooks'],
  'Hono on Node': ['hono by hand', 'hono stablehooks'],
};

/** Rounds alternate between the servers of a framework, so a slow minute of the machine affects each of them. */
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
    const loads: Load[][] = names.map(() => []);
    try {
      for (let round = 0; round <= rounds; round++) {
        progressOf(`Servers, ${framework}`, round, rounds);
        for (let turn = 0; turn < names.length; turn++) {
          // Each round begins with another one.
          const index = (round + turn) % names.length;
          const server = running[index];
          if (server === undefined) continue;
          // The first round warms up.
          const load = await loadServer(server, round === 0 ? 2 * seconds : seconds);
          if (round > 0) loads[index]?.push(load);
        }
      }
    } finally {
      for (const server of running) server.stop();
    }
    const [byHand = []] = loads;
    for (const [index, name] of names.entries()) {
      const own = loads[index] ?? [];
      results.push({
        framework,
        name,
        cpuUs: median(own.map(({ cpuUs }) => cpuUs)),
        ratio: median(own.map(({ cpuUs }, round) => (byHand[round]?.cpuUs ?? Number.NaN) / cpuUs)),
        requestsPerSecond: median(own.map(({ requestsPerSecond }) => requestsPerSecond)),
        p99Ms: median(own.map(({ p99Ms }) => p99Ms)),
      });
    }
  }
  return results;
}

/** A server in a process of its own. */
interface Running {
  readonly url: string;
  /** The processor time that its process has used so far, in µs. */
  cpuUs(): Promise<number>;
  stop(): void;
}

async function start(name: ServerName): Promise<Running> {
  const program = fileURLToPath(new URL('server.ts', import.meta.url));
  const cwd = fileURLToPath(new URL('.', import.meta.url));
  const child = fork(program, [name], {
    cwd,
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const failed = once(child, 'exit').then(() => {
    throw new Error(`The server "${name}" has ended.`);
  });
  failed.catch(() => undefined);
  const answer = async () => (await Promise.race([once(child, 'message'), failed]))[0];
  return {
    url: await answer(),
    cpuUs() {
      const answered = answer();
      child.send('cpu');
      return answered;
    },
    stop: () => void child.kill(),
  };
}

type Load = Pick<LoadResult, 'cpuUs' | 'requestsPerSecond' | 'p99Ms'>;

/** Ten connections send as fast as they are answered. Each delivery has a new event id, so none is a duplicate. */
async function loadServer(server: Running, seconds: number): Promise<Load> {
  const cpuBefore = await server.cpuUs();
  const { requests, latency, non2xx, errors } = await autocannon({
    url: server.url,
    connections: 10,
    duration: seconds,
    requests: [
      { method: 'POST', path: '/hooks', setupRequest: (request) => ({ ...request, ...nextDelivery() }) },
    ],
  });
  const failed = non2xx + errors;
  if (failed > 0) throw new Error(`${failed} deliveries to ${server.url} were not answered by 2xx.`);
  return {
    cpuUs: ((await server.cpuUs()) - cpuBefore) / requests.total,
    requestsPerSecond: requests.average,
    p99Ms: latency.p99,
  };
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
