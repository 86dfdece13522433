/** Writes requests of valid and broken framing to sockets of servers in a process of their own, and checks what they did. */
import { connect } from 'node:net';
import fc from 'fast-check';
import { Child } from './child.js';
import type { FuzzReport } from './receive.js';
import * as requests from './requests.js';
import type { SOCKET_FAULTS } from './socket-faults.js';
import type { Question, ServerReport } from './socket-server.js';
import { type Counts, count, failed } from './steps.js';

/** Each has a fault that shows it. */
export type SocketFinding = keyof typeof SOCKET_FAULTS;

export interface SocketReport extends FuzzReport {
  readonly connections: number;
  readonly handled: number;
  /** Bytes in use after a collection, and how many requests were sent by then. */
  readonly heap: readonly { readonly sent: number; readonly bytes: number }[];
  /** How many bytes a request leaves behind. */
  readonly growth: number;
}

const AT_ONCE = 48;

/** The servers are asked for a report after each batch. Uniform, because small cases are for the shrinker. */
const batches = fc.noBias(fc.array(requests.connection, { minLength: 1, maxLength: 200, size: 'max' }));

/** The process of the servers compiles their modules first. */
const START_LIMIT_MS = 300_000;

/** After this, a counterexample is not made smaller: each may take as long as a limit. */
const SHRINK_MS = 300_000;

/** What a receiver, its framework or Node answers to some shape. The last ones are rare. */
const STATUSES = ['200', '400', '401', '404', '405', '413', '415', '500', '408', '417', '431', '501'];

/** What must have been sent and answered; `none` is a connection without a response. */
export const SOCKET_KINDS = [
  ...requests.KINDS,
  ...[...STATUSES.slice(0, 8), 'none'].map((status) => `status: ${status}`),
];

/** What a request may leave behind on average, and what the heap may vary by, whatever the number of requests. */
const MAX_BYTES_PER_REQUEST = 32;
const MAX_VARIATION_BYTES = 1_500_000;

/** The first part of a run compiles code and fills caches; fewer samples do not tell growth from variation. */
const WARM_UP = 0.25;
const MIN_SAMPLES = 12;

/** The bytes that each further request leaves behind: the slope of the line through the samples after the warm-up. */
export function growthOf(samples: SocketReport['heap']): number {
  const last = samples.at(-1)?.sent ?? 0;
  const counted = samples.filter(({ sent }) => sent >= last * WARM_UP);
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(counted.map(({ sent }) => sent)), mean(counted.map(({ bytes }) => bytes))];
  const slope = counted.reduce((sum, { sent, bytes }) => sum + (sent - x) * (bytes - y), 0);
  return slope / counted.reduce((sum, { sent }) => sum + (sent - x) ** 2, 0);
}

/** The statuses of the whole responses in what was received. */
function statusesIn(received: Buffer): string[] {
  const statuses: string[] = [];
  for (let at = 0, end = 0; ; ) {
    end = received.indexOf('\r\n\r\n', at);
    const head = received.subarray(at, end).toString('latin1');
    const status = /^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1];
    if (end === -1 || status === undefined) return statuses;
    at = end + 4;
    if (status < '200') continue;
    at += Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
    if (at <= received.length) statuses.push(status);
  }
}

/** What the server sent; `undefined` if the connection outlived the limit. */
async function exchange(
  port: number,
  { parts, ending, responses }: requests.Written,
  limitMs: number,
): Promise<Buffer | undefined> {
  let received = Buffer.alloc(0);
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  // The server resets connections with broken requests.
  socket.on('error', () => undefined);
  let isLate = false;
  const limit = setTimeout(() => {
    isLate = true;
    socket.destroy();
  }, limitMs);
  // Not `once` of node:events, which rejects at an error.
  const event = (name: 'connect' | 'close') => new Promise((resolve) => socket.once(name, resolve));
  const closed = event('close');
  let hasWritten = false;
  const finish = () => {
    if (hasWritten && ending === 'wait' && statusesIn(received).length >= responses) socket.end();
  };
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    finish();
  });
  socket.on('end', () => socket.end());
  await Promise.race([event('connect'), closed]);
  for (const part of parts) {
    if (socket.destroyed) break;
    if (part.length > 0) socket.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
  hasWritten = true;
  if (ending === 'half-close') socket.end();
  else if (ending === 'destroy') socket.destroy();
  else finish();
  await closed;
  clearTimeout(limit);
  return isLate ? undefined : received;
}

/** Sends at least this many requests, or the counterexample at a path that fast-check printed. */
export async function fuzzSockets({
  seed,
  requests: wanted,
  path,
  until = Number.POSITIVE_INFINITY,
  fault,
  bodyMs = 10_000,
}: {
  readonly seed: number;
  readonly requests: number;
  readonly path?: string;
  /** When to end, by `performance.now()`. @default when the requests are sent */
  readonly until?: number;
  /** A fault of the servers, which is not made smaller. @default none */
  readonly fault?: SocketFinding;
  /** How long a body may take. All other limits are multiples of it. @default 10_000 */
  readonly bodyMs?: number;
}): Promise<SocketReport> {
  const counts: Counts = {};
  const heap: { sent: number; bytes: number }[] = [];
  const totals = { sent: 0, connections: 0, handled: 0 };
  const limits = { serverMs: 3 * bodyMs, connectionMs: 6 * bodyMs, answerMs: 12 * bodyMs };
  const open = async () => {
    const child = new Child('./socket-server.ts', ['--expose-gc']);
    const start: Question = { ask: 'start', bodyMs, ...limits, fault };
    return { child, ports: (await child.ask<readonly number[]>(start, START_LIMIT_MS)) ?? [] };
  };
  let servers = await open();

  async function send({ server, shape }: requests.Connection, written: requests.Written) {
    totals.connections += 1;
    totals.sent += written.responses;
    count(counts, `${server}: ${shape.name}`);
    const port = servers.ports[requests.SERVERS.indexOf(server)] ?? 0;
    const received = await exchange(port, written, limits.connectionMs);
    const statuses = statusesIn(received ?? Buffer.alloc(0));
    for (const status of statuses.length === 0 ? ['none'] : statuses) count(counts, `status: ${status}`);
    const isOwed = written.ending === 'wait' && written.must.length > 0;
    return failed<SocketFinding>({
      'a connection is neither answered nor closed': received !== undefined,
      'a valid request is not answered': !isOwed || statuses.length >= written.responses,
      'a response has a status that no shape can have': statuses.every((status) => STATUSES.includes(status)),
      'a response contains something confidential': !requests.CONFIDENTIAL.test(
        `${received?.toString('latin1')}`,
      ),
    });
  }

  async function sendBatch(batch: readonly requests.Connection[]): Promise<void> {
    if (servers.child.ended !== undefined) servers = await open();
    const wrong = new Set<SocketFinding>();
    const sent: requests.Written[] = [];
    const sendEach = async (connections: Iterable<requests.Connection>) => {
      for (const connection of connections) {
        if (wrong.size > 0 || servers.child.ended !== undefined) return;
        const written = requests.write(connection);
        sent.push(written);
        for (const finding of await send(connection, written)) wrong.add(finding);
      }
    };
    const waiting = batch.values();
    await Promise.all(Array.from({ length: AT_ONCE }, () => sendEach(waiting)));
    // Each server handles a valid delivery after all others.
    await sendEach(requests.VALID);
    const question: Question = { ask: 'report', waitMs: limits.connectionMs };
    const report = await servers.child.ask<ServerReport>(question, limits.answerMs);
    const handled = report?.handled ?? [];
    const [must, may] = [sent.flatMap((written) => written.must), sent.flatMap((written) => written.may)];
    const allowed = new Set([...must, ...may]);
    const reported = failed<SocketFinding>({
      [`the process of the servers ended ${servers.child.ended}`]: report !== undefined,
      'a valid delivery is not handled': must.every((event) => handled.includes(event)),
      // Each once, and in the bytes that were signed.
      'an event is handled that must not be': handled.every((event) => allowed.delete(event)),
      'lines contain something confidential': report?.leaks !== true,
      'connections stay open': (report?.connections ?? 0) === 0,
    });
    for (const finding of reported) wrong.add(finding);
    totals.handled += handled.length;
    heap.push({ sent: totals.sent, bytes: report?.heapBytes ?? 0 });
    if (wrong.size > 0) throw new Error([...wrong].join('\n'));
  }

  const check = async (
    seed: number,
    arbitrary: fc.Arbitrary<readonly requests.Connection[]>,
    numRuns: number,
  ) => {
    const result = await fc.check(fc.asyncProperty(arbitrary, sendBatch), {
      seed,
      numRuns,
      endOnFailure: fault !== undefined,
      includeErrorInReport: true,
      interruptAfterTimeLimit: Math.min(SHRINK_MS, until - performance.now()),
      ...(path !== undefined && { path }),
    });
    return result.failed ? fc.defaultReportMessage(result) : undefined;
  };
  // Apart from the others, because they wait for a limit.
  let failure =
    path === undefined ? await check(seed, fc.constant([...requests.SLOW, ...requests.SLOW]), 1) : undefined;
  for (let at = seed; totals.sent < wanted && failure === undefined && performance.now() < until; at += 1) {
    failure = await check(at, batches, Math.min(20, Math.ceil((wanted - totals.sent) / 100)));
  }
  const growth = growthOf(heap);
  const allowed = MAX_BYTES_PER_REQUEST + MAX_VARIATION_BYTES / totals.sent;
  const hasEnded = await servers.child.close(limits.answerMs);
  const [wrong] = failed<SocketFinding>({
    'each request leaves bytes behind': heap.length < MIN_SAMPLES || growth <= allowed,
    'the process of the servers does not end by itself': hasEnded,
  });
  return { ...totals, counts, heap, growth, failure: failure ?? wrong };
}
