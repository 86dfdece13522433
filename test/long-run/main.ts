/**
 * Runs a production-like setup for a long time: two Express processes over Postgres with a poller each, a service that
 * drops, repeats and reorders deliveries, and restarts every five minutes. At its end `health` must be green.
 *
 * `npm run long-run -- --minutes 60`. It prints a line per minute, then a summary, and exits with 1 if something is wrong.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { health } from 'stablehooks/health';
import { migratePostgres, postgresInbox } from 'stablehooks/inboxes/postgres';
import { createSandbox } from 'stablehooks-kit/sandbox';
import { bundle } from '../bundle.js';
import { startPostgres } from '../services/postgres.js';
import type { ProcessSettings, Report } from './process.js';

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '60' }, rate: { type: 'string', default: '20' } },
});
const minutes = Number(values.minutes);
const eventsPerSecond = Number(values.rate);
const RESTART_EVERY_MS = 300_000;
const LIMITS = { dueMs: 15_000, provenMs: 20_000, requirePoll: true };

const secret = 'whsec_long_run';
const postgres = await startPostgres();
const pool = new pg.Pool({ connectionString: postgres.url, max: 2 }).on('error', () => undefined);
await migratePostgres(pool);
// Without a key: only the inbox prevents a second entry.
await pool.query('CREATE TABLE ledger (event_id text NOT NULL)');
const inbox = postgresInbox(pool);
const sandbox = createSandbox({
  ...{ secret, seed: 1, maxAttempts: 3, retryBaseMs: 500, timeoutMs: 5_000, concurrency: 100 },
  ...{ maxEvents: 1_000_000, faults: { drop: 0.05, duplicate: 0.1, reorder: 0.2, reorderMs: 500 } },
});
const { url } = await sandbox.listen(0);
const service = { url, token: sandbox.token, since: new Date().toISOString() };
const program = await bundle(new URL('./process.ts', import.meta.url));

interface Member {
  readonly child: ChildProcess;
  port?: number | undefined;
  memory?: Report['memory'];
}
const members: Member[] = [];

async function startMember(index: number): Promise<void> {
  const settings: ProcessSettings = { databaseUrl: postgres.url, secret, service };
  const child = fork(program.file, [JSON.stringify(settings)], { execArgv: ['--expose-gc'] });
  const member: Member = { child };
  members[index] = member;
  child.on('message', ({ port, memory }: Report) => {
    member.port = port ?? member.port;
    member.memory = memory ?? member.memory;
  });
  await once(child, 'message');
}

async function killMember(index: number): Promise<void> {
  const member = members[index];
  if (member === undefined) return;
  member.port = undefined;
  const exit = once(member.child, 'exit');
  member.child.kill('SIGKILL');
  await exit;
}

/** The latencies of deliveries since the last line, in ms. */
let latencies: number[] = [];
let deliveries = 0;
sandbox.endpoints.add({
  // A load balancer: the processes that listen, in turn.
  async fetch(request) {
    const ports = members.flatMap(({ port }) => port ?? []);
    deliveries += 1;
    const startedAt = performance.now();
    const response = await fetch(
      new Request(`http://127.0.0.1:${ports[deliveries % ports.length] ?? 1}/`, request),
    );
    latencies.push(performance.now() - startedAt);
    return response;
  },
});

/** The unhealthy checks; a database that restarts is one. */
async function redChecks(): Promise<readonly string[]> {
  const answer = await health(inbox, LIMITS).catch(() => undefined);
  return answer?.checks.filter(({ healthy }) => !healthy).map(({ name }) => name) ?? ['inbox'];
}

interface Line {
  readonly heapMB: readonly number[];
  readonly rssMB: readonly number[];
  readonly connections: number;
  readonly p50: number;
  readonly p99: number;
}
const lines: Line[] = [];

async function measure(): Promise<Line> {
  const sorted = latencies.toSorted((a, b) => a - b);
  latencies = [];
  const at = (share: number) => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0);
  const megabytes = (kind: 'heap' | 'rss') =>
    members.map(({ memory }) => Math.round((memory?.[kind] ?? 0) / 1_048_576));
  const { rows } = await pool.query(
    "SELECT count(*)::int AS count FROM pg_stat_activity WHERE backend_type = 'client backend'",
  );
  return {
    ...{ heapMB: megabytes('heap'), rssMB: megabytes('rss') },
    ...{ connections: rows[0].count, p50: at(0.5), p99: at(0.99) },
  };
}

const problems: string[] = [];
const say = (text: string) => console.log(`${new Date().toISOString()} ${text}`);
const endsAt = Date.now() + minutes * 60_000;
const isOver = () => Date.now() >= endsAt;
const whileRunning = async (everyMs: number, step: () => Promise<unknown>) => {
  for (let next = Date.now() + everyMs; next < endsAt; next += everyMs) {
    await pause(Math.max(0, next - Date.now()));
    await step();
  }
};

async function fire(): Promise<void> {
  const kinds = [sandbox.accept, sandbox.transfer, sandbox.redeem] as const;
  const startedAt = Date.now();
  for (let fired = 0; !isOver(); fired++) {
    kinds[fired % kinds.length]?.();
    await pause(Math.max(0, startedAt + (fired * 1_000) / eventsPerSecond - Date.now()));
  }
}

let restarts = 0;
async function restart(): Promise<void> {
  restarts += 1;
  // The second process runs to the end, so its memory shows a leak.
  await Promise.all([postgres.restart(), killMember(0).then(() => startMember(0))]);
}

try {
  await Promise.all([startMember(0), startMember(1)]);
  await Promise.all([
    fire(),
    whileRunning(60_000, async () => {
      const line = await measure().catch(() => undefined);
      if (line === undefined) return;
      lines.push(line);
      say(`${JSON.stringify(line)} events ${sandbox.events().length}`);
    }),
    whileRunning(RESTART_EVERY_MS, restart),
  ]);
  await sandbox.settled();
  const list = sandbox.events().map(({ id }) => id);
  const countOpen = async () =>
    (await inbox.count()).reduce((sum, { state, count }) => (state === 'done' ? sum : sum + count), 0);
  const isComplete = async () =>
    (await countOpen()) === 0 &&
    (await Promise.all(list.slice(-500).map((id) => inbox.find(id)))).every(Boolean);
  const isOk = async () => (await isComplete()) && (await redChecks()).length === 0;
  for (const until = Date.now() + 120_000; Date.now() < until && !(await isOk()); ) await pause(500);
  const red = await redChecks();

  const { rows } = await pool.query<{ event_id: string }>('SELECT event_id FROM ledger');
  const ids = new Set(rows.map(({ event_id }) => event_id));
  const lost = list.filter((id) => !ids.has(id)).length;
  const twice = rows.length - ids.size;
  if (lost > 0 || twice > 0 || ids.size !== list.length) problems.push('the ledger is not the list');
  if (red.length > 0) problems.push(`health is red at the end: ${red.join()}`);
  const third = Math.max(1, Math.floor(lines.length / 3));
  const middleOf = (from: readonly Line[], value: (line: Line) => number) =>
    from.map(value).toSorted((a, b) => a - b)[Math.floor(from.length / 2)];
  const trend = (value: (line: Line) => number) =>
    `${middleOf(lines.slice(0, third), value)} -> ${middleOf(lines.slice(-third), value)}`;
  console.log({
    ...{ minutes, events: list.length, deliveries, restarts, lost, twice, healthy: red.length === 0 },
    'first third -> last third, medians': {
      'heap of the second process, MB': trend(({ heapMB }) => heapMB[1] ?? 0),
      'rss of the second process, MB': trend(({ rssMB }) => rssMB[1] ?? 0),
      connections: trend(({ connections }) => connections),
      'delivery p50, ms': trend(({ p50 }) => p50),
      'delivery p99, ms': trend(({ p99 }) => p99),
    },
    problems,
  });
  if (problems.length > 0) process.exitCode = 1;
} finally {
  await Promise.all([killMember(0), killMember(1)]);
  await sandbox.close();
  await pool.end();
  await postgres.stop();
  await program.remove();
}
