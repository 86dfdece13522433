/** Writes requests of valid and broken framing to sockets of a server in its own process, and checks what it did. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Draw } from './random.js';
import { type Connection, makeConnection, SHAPE_NAMES, SLOW_SHAPE } from './requests.js';
import type { Limits, Question, ServerReport } from './socket-server.js';

/** Every kind of finding. `socket-faults.ts` has a fault of each. */
export const SOCKET_FINDINGS = [
  'a connection is neither answered nor closed',
  'a valid request is not answered',
  'a response has a status that no shape can have',
  'a response contains something confidential',
  'lines contain something confidential',
  'a server does not handle a valid delivery any more',
  'a valid delivery is not handled',
  'an event is handled that must be refused',
  'an event is handled with other bytes',
  'an event is handled twice',
  'connections stay open',
  'each request leaves bytes behind',
  'the process of the servers ended',
  'the process of the servers does not answer',
  'the process of the servers does not end by itself',
] as const;

export type SocketFindingKind = (typeof SOCKET_FINDINGS)[number];

export interface SocketFinding {
  readonly kind: SocketFindingKind;
  readonly detail: string | undefined;
  readonly seed: number;
  /** The connection that shows it; `undefined` when it is about several. */
  readonly index: number | undefined;
  readonly shape: string | undefined;
}

export interface SocketReport {
  readonly requests: number;
  readonly connections: number;
  readonly findings: readonly SocketFinding[];
  readonly shapes: Readonly<Record<string, number>>;
  /** How often each status was answered; `none` for connections without a response. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly handled: number;
  /** Bytes in use after a collection, and how many requests were sent by then. */
  readonly heap: readonly { readonly requests: number; readonly bytes: number }[];
  /** How many bytes a request leaves behind, by the regression over the samples. */
  readonly growth: number;
}

export const SERVERS = ['node:http', 'Express', 'Fastify'] as const;

const AT_ONCE = 48;

/** How many connections wait for the server's time limit. */
const SLOW_CONNECTIONS = 6;

/** How often the servers are asked for a report, and given a valid delivery, in a run; and after how many requests at least. */
const REPORTS = 40;
const MIN_REQUESTS_PER_REPORT = 75;

/** The first part of a run compiles code and fills caches; its samples do not count. */
const WARM_UP = 0.25;

const LIMITS: Limits = { bodyMs: 10_000, serverMs: 30_000, connectionMs: 60_000, answerMs: 120_000 };

/** The process of the servers compiles their modules first. */
const START_LIMIT_MS = 300_000;

/** The statuses that a receiver, its framework or Node answers to some shape. */
const STATUSES = [200, 400, 401, 404, 405, 408, 413, 415, 417, 431, 500, 501];

/** What a request may leave behind on average, and what the heap may vary by, whatever the number of requests. */
const MAX_BYTES_PER_REQUEST = 32;
const MAX_VARIATION_BYTES = 1_500_000;

/** No further request is sent when there are this many. */
const MAX_FINDINGS = 5;

/** The statuses of the whole responses in what was received, and whether it holds nothing else. */
function readResponses(received: Buffer): {
  readonly statuses: readonly number[];
  readonly isWhole: boolean;
} {
  const statuses: number[] = [];
  let at = 0;
  while (at < received.length) {
    const end = received.indexOf('\r\n\r\n', at);
    if (end === -1) return { statuses, isWhole: false };
    const head = received.subarray(at, end).toString('latin1');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
    if (Number.isNaN(status)) return { statuses, isWhole: false };
    at = end + 4;
    if (status < 200) continue;
    const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
    if (at + length > received.length) return { statuses, isWhole: false };
    at += length;
    statuses.push(status);
  }
  return { statuses, isWhole: true };
}

async function exchange(
  port: number,
  { parts, ending, responses }: Connection,
  limitMs: number,
): Promise<Buffer | 'no end'> {
  const received: Buffer[] = [];
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  // The server resets connections with broken requests.
  socket.on('error', () => undefined);
  let isLate = false;
  const limit = setTimeout(() => {
    isLate = true;
    socket.destroy();
  }, limitMs);
  // Not `once` of node:events, which rejects at an error.
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const isAnswered = () => readResponses(Buffer.concat(received)).statuses.length >= responses;
  let hasWritten = false;
  const finish = () => {
    if (hasWritten && ending === 'wait' && isAnswered()) socket.end();
  };
  socket.on('data', (chunk) => {
    received.push(chunk);
    finish();
  });
  socket.on('end', () => socket.end());
  await Promise.race([new Promise((resolve) => socket.once('connect', resolve)), closed]);
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
  return isLate ? 'no end' : Buffer.concat(received);
}

class Servers {
  readonly #child: ChildProcess;
  readonly #ended: Promise<undefined>;
  /** How it ended before it was asked to. */
  ended: 'by itself' | 'without an answer' | undefined;

  constructor() {
    const path = fileURLToPath(new URL('./socket-server.ts', import.meta.url));
    const execArgv = ['--expose-gc', '--import', 'tsx'];
    this.#child = fork(path, [], { execArgv, stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
    this.#ended = once(this.#child, 'exit').then(() => {
      this.ended ??= 'by itself';
      return undefined;
    });
  }

  /** Asks, and resolves with the answer; `undefined` when the process ends before, by itself or because it takes too long. */
  async ask<Answer>(question: Question, limitMs: number): Promise<Answer | undefined> {
    if (this.ended !== undefined) return undefined;
    const answer = once(this.#child, 'message').then(([value]) => value as Answer);
    this.#child.send(question, () => undefined);
    const limit = setTimeout(() => {
      this.ended = 'without an answer';
      this.#child.kill('SIGKILL');
    }, limitMs);
    const answered = await Promise.race([answer, this.#ended]);
    clearTimeout(limit);
    return answered;
  }

  /** Asks the process to end. Resolves with whether it did by itself. */
  async close(limitMs: number): Promise<boolean> {
    this.#child.send({ ask: 'close' } satisfies Question, () => undefined);
    const limit = setTimeout(() => this.#child.kill('SIGKILL'), limitMs);
    await this.#ended;
    clearTimeout(limit);
    return this.#child.exitCode === 0;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}

/** The bytes that each further request leaves behind: the slope of the line through the samples after the warm-up. */
export function growthOf(samples: SocketReport['heap']): number {
  const last = samples.at(-1)?.requests ?? 0;
  const counted = samples.filter(({ requests }) => requests >= last * WARM_UP);
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(counted.map(({ requests }) => requests)), mean(counted.map(({ bytes }) => bytes))];
  const slope = counted.reduce((sum, { requests, bytes }) => sum + (requests - x) * (bytes - y), 0);
  return slope / counted.reduce((sum, { requests }) => sum + (requests - x) ** 2, 0);
}

/** Sends at least this many requests, to the three servers in turn. */
export async function fuzzSockets({
  seed,
  requests: wanted,
  from: first = 0,
  until: end = Number.POSITIVE_INFINITY,
  fault,
  limits = LIMITS,
}: {
  readonly seed: number;
  readonly requests: number;
  /** The first connection. @default 0 */
  readonly from?: number | undefined;
  /** When to end, by `performance.now()`. @default when the requests are sent */
  readonly until?: number | undefined;
  /** The name of a fault of the servers. @default none */
  readonly fault?: string | undefined;
  /** @default a body in 10 s, a connection in 60 s */
  readonly limits?: Limits | undefined;
}): Promise<SocketReport> {
  const servers = new Servers();
  const secret = `whsec_${new Draw(seed, 0, 2).marker()}`;
  const findings: SocketFinding[] = [];
  const find = (
    kind: SocketFindingKind,
    about: Partial<Pick<SocketFinding, 'detail' | 'index' | 'shape'>> = {},
  ) => void findings.push({ kind, seed, detail: undefined, index: undefined, shape: undefined, ...about });
  const shapes: Record<string, number> = {};
  const statuses: Record<string, number> = {};
  const heap: { requests: number; bytes: number }[] = [];
  const totals = { requests: 0, connections: 0, handled: 0 };
  const start: Question = { ask: 'start', secret, marker: 'mark', limits, fault };
  const ports = (await servers.ask<readonly number[]>(start, START_LIMIT_MS)) ?? [];

  const connectionAt = (index: number, shape?: string) =>
    makeConnection({ seed, index, secret, path: pathOf(index), ...(shape !== undefined && { shape }) });
  const count = (counts: Record<string, number>, name: string) => {
    counts[name] = (counts[name] ?? 0) + 1;
  };

  const send = async (index: number, wanted?: string): Promise<Connection> => {
    const connection = connectionAt(index, wanted);
    const { shape, marker, must, responses, ending, requests } = connection;
    totals.connections += 1;
    totals.requests += requests;
    count(shapes, `${serverOf(index)}: ${shape}`);
    const received = await exchange(ports[index % SERVERS.length] ?? 0, connection, limits.connectionMs);
    if (received === 'no end') {
      find('a connection is neither answered nor closed', { index, shape });
      return connection;
    }
    const answer = readResponses(received);
    for (const status of answer.statuses) count(statuses, String(status));
    if (answer.statuses.length === 0) count(statuses, 'none');
    const text = received.toString('latin1');
    if (text.includes(marker) || text.includes(secret) || /[0-9a-f]{64}/.test(text)) {
      find('a response contains something confidential', { index, shape });
    }
    if (ending === 'wait' && must.length > 0 && answer.statuses.length < responses) {
      find('a valid request is not answered', { index, shape });
    }
    const wrong = answer.statuses.find((status) => !STATUSES.includes(status));
    if (wrong !== undefined) {
      find('a response has a status that no shape can have', { detail: String(wrong), index, shape });
    }
    return connection;
  };

  let next = first;
  const mayGoOn = () =>
    servers.ended === undefined && findings.length < MAX_FINDINGS && performance.now() < end;
  while (totals.requests < wanted && findings.length === 0 && mayGoOn()) {
    const from = next;
    const until = Math.min(wanted, totals.requests + Math.max(wanted / REPORTS, MIN_REQUESTS_PER_REPORT));
    const sent: Connection[] = [];
    const sendNext = async (shape?: string) => {
      const index = next;
      next += 1;
      sent[index - from] = await send(index, shape);
    };
    const work = async () => {
      while (totals.requests < until && mayGoOn()) await sendNext();
    };
    // Once per run, because they last until a limit of the servers.
    const slow = from === first ? Array.from({ length: SLOW_CONNECTIONS }, () => sendNext(SLOW_SHAPE)) : [];
    await Promise.all([...slow, ...Array.from({ length: AT_ONCE }, work)]);
    // A valid delivery after all the others, to each server.
    const deliverLast = async () => {
      const index = next;
      next += 1;
      const valid = connectionAt(index, 'valid');
      sent[index - from] = valid;
      const received = await exchange(ports[index % SERVERS.length] ?? 0, valid, limits.connectionMs);
      if (received === 'no end' || !received.toString('latin1').includes('{"outcome":"handled"}')) {
        find('a server does not handle a valid delivery any more', { detail: serverOf(index) });
      }
    };
    if (findings.length < MAX_FINDINGS) await Promise.all(SERVERS.map(deliverLast));
    const report = await servers.ask<ServerReport>({ ask: 'report' }, limits.answerMs);
    if (report === undefined) break;
    totals.handled += report.handled.length;
    heap.push({ requests: totals.requests, bytes: report.heapBytes });
    if (report.leaks > 0) find('lines contain something confidential', { detail: String(report.leaks) });
    if (report.connections > 0) find('connections stay open', { detail: String(report.connections) });
    for (const { kind, place } of wrongEvents(sent, report.handled)) {
      find(kind, place === undefined ? {} : { index: from + place, shape: sent[place]?.shape });
    }
  }
  const growth = growthOf(heap);
  const allowed = MAX_BYTES_PER_REQUEST + MAX_VARIATION_BYTES / totals.requests;
  if (heap.length > REPORTS / 2 && growth > allowed) {
    const detail = `${Math.round(growth)}; at most ${Math.round(allowed)} are allowed`;
    find('each request leaves bytes behind', { detail });
  }
  if (servers.ended === 'by itself') find('the process of the servers ended');
  else if (servers.ended === 'without an answer') find('the process of the servers does not answer');
  else if (findings.length > 0) await servers.kill();
  else if (!(await servers.close(limits.answerMs))) find('the process of the servers does not end by itself');
  return { ...totals, findings, shapes, statuses, heap, growth };
}

const serverOf = (index: number) => SERVERS[index % SERVERS.length] ?? 'node:http';
const pathOf = (index: number) => (serverOf(index) === 'node:http' ? '/' : '/hooks');

interface WrongEvent {
  readonly kind: SocketFindingKind;
  readonly place: number | undefined;
}

function wrongEvents(sent: readonly Connection[], handled: ServerReport['handled']): readonly WrongEvent[] {
  const allowed = new Map(
    sent.flatMap(({ must, may }, place) =>
      [...must, ...may].map((event) => [event.id, { place, event }] as const),
    ),
  );
  const seen = new Set<string>();
  const wrong: WrongEvent[] = [];
  for (const { id, digest } of handled) {
    const found = allowed.get(id);
    const place = found?.place ?? placeOf(sent, id);
    if (found === undefined) wrong.push({ kind: 'an event is handled that must be refused', place });
    else if (found.event.digest !== digest)
      wrong.push({ kind: 'an event is handled with other bytes', place });
    if (seen.has(id)) wrong.push({ kind: 'an event is handled twice', place });
    seen.add(id);
  }
  for (const [place, { must }] of sent.entries()) {
    if (must.some(({ id }) => !seen.has(id))) wrong.push({ kind: 'a valid delivery is not handled', place });
  }
  return wrong;
}

/** The connection that an id was sent in; ids name it. */
function placeOf(sent: readonly Connection[], id: string): number | undefined {
  const place = sent.findIndex(({ parts }) => Buffer.concat(parts).includes(id));
  return place === -1 ? undefined : place;
}

export function shapesNotShown({
  shapes,
  statuses,
}: Pick<SocketReport, 'shapes' | 'statuses'>): readonly string[] {
  const wanted = SERVERS.flatMap((server) => SHAPE_NAMES.map((name) => `${server}: ${name}`));
  const codes = ['200', '400', '401', '404', '405', '413', '415', '500', 'none'];
  return [...wanted.filter((name) => !(name in shapes)), ...codes.filter((code) => !(code in statuses))];
}
