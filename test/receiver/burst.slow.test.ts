/** Bursts of deliveries over HTTP against Postgres, with fewer connections than deliveries and handlers want. */
import { once } from 'node:events';
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type pg from 'pg';
import { createReceiver, type Inbox, type ReceiverOptions, type WebhookEvent } from 'stablehooks';
import { type PgClientLike, postgresInbox } from 'stablehooks/inboxes/postgres';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, type SignedRequest, signedRequest } from 'stablehooks/testing';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { atNight } from '../nightly.js';
import { ownPostgres } from '../services/own-postgres.js';
import { secret } from './delivery.js';

const DELIVERIES = atNight(5_000, 400);
/** How many deliveries are on their way at the same time. */
const SOCKETS = 200;
const CONNECTIONS = 5;
const MAX_CONCURRENCY = 10;
const KEYS = 50;

// Many seconds of work, and more on a busy machine.
vi.setConfig({ testTimeout: 600_000 });

// Without a key, which would refuse a second entry of an event.
const postgres = ownPostgres('CREATE TABLE ledger (id text)');
const { pool: admin } = postgres;

beforeEach(async () => {
  await admin.query('TRUNCATE ledger, stablehooks.events');
});

type Limits<Tx> = Pick<ReceiverOptions<Tx>, 'answer' | 'orderingKey' | 'maxConcurrency'>;

interface Seen {
  /** The most handlers that ran at the same time. */
  atOnce: number;
  /** The most handlers of one key that ran at the same time. */
  ofOneKey: number;
  readonly codes: Map<string, number>;
}

const keyOf = ({ payload }: WebhookEvent) => String(payload['wallet_id']);

/** A pool that is too small for the burst; a query that waits too long for a connection is an `ERR_INBOX_FAILED`. */
const openPool = () => postgres.open({ max: CONNECTIONS, connectionTimeoutMillis: 30_000 });

async function serve<Tx>(
  inbox: Inbox<Tx>,
  limits: Limits<Tx>,
  book: (event: WebhookEvent, tx: Tx) => Promise<unknown>,
) {
  const seen: Seen = { atOnce: 0, ofOneKey: 0, codes: new Map() };
  const running = new Map<string, number>();
  let atOnce = 0;
  const receiver = createReceiver<unknown>({
    secret,
    inbox: inbox as Inbox<unknown>,
    ...(limits as Limits<unknown>),
    logger: { warn: () => undefined, error: () => undefined },
    onOutcome: ({ error }) => {
      if (error !== undefined) seen.codes.set(error.code, (seen.codes.get(error.code) ?? 0) + 1);
    },
    handlers: {
      'transfer.settled': async (event, { tx }) => {
        const key = keyOf(event);
        const ofOneKey = (running.get(key) ?? 0) + 1;
        running.set(key, ofOneKey);
        atOnce += 1;
        seen.atOnce = Math.max(seen.atOnce, atOnce);
        seen.ofOneKey = Math.max(seen.ofOneKey, ofOneKey);
        await book(event, tx as Tx);
        atOnce -= 1;
        running.set(key, (running.get(key) ?? 0) - 1);
      },
    },
  });
  const server = createServer(toNodeHandler(receiver)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await receiver.close();
  });
  const { port } = server.address() as AddressInfo;
  return { receiver, port, seen };
}

const bookWith =
  (pool: pg.Pool) =>
  ({ id }: WebhookEvent): Promise<unknown> =>
    pool.query('INSERT INTO ledger VALUES ($1)', [id]);
const bookInTransaction = ({ id }: WebhookEvent, tx: PgClientLike): Promise<unknown> =>
  tx.query('INSERT INTO ledger VALUES ($1)', [id]);

function makeDeliveries(count: number): Promise<readonly SignedRequest[]> {
  const events = Array.from({ length: count }, (_, index) =>
    exampleEvent('transfer.settled', { payload: { wallet_id: `wal_${index % KEYS}` } }),
  );
  return Promise.all(events.map((event) => signedRequest(event, { secret })));
}

/**
 * Sends all deliveries as fast as a limited number of sockets can, and then those that were answered 503 again until
 * none is. Resolves to how often each status was answered.
 */
async function send(
  port: number,
  deliveries: readonly SignedRequest[],
  maxConcurrency = MAX_CONCURRENCY,
): Promise<Record<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS });
  const statuses: Record<number, number> = {};
  const withoutRetryAfter: string[] = [];

  async function sendOne({ method, headers, body }: SignedRequest): Promise<boolean> {
    const sent = request({ port, host: '127.0.0.1', path: '/hooks', method, headers, agent }).end(body);
    const [response] = await once(sent, 'response');
    response.resume();
    await once(response, 'end');
    const { statusCode } = response;
    statuses[statusCode] = (statuses[statusCode] ?? 0) + 1;
    if (statusCode !== 503) return true;
    const retryAfter = response.headers['retry-after'];
    if (!/^[1-9]\d*$/.test(retryAfter)) withoutRetryAfter.push(String(retryAfter));
    return false;
  }

  try {
    const accepted = await Promise.all(deliveries.map(sendOne));
    const left = deliveries.filter((_, index) => !accepted[index]).values();
    const sendAgain = async () => {
      for (const signed of left) while (!(await sendOne(signed)));
    };
    // Few at a time, and more than can run: answering 503 to all sockets would take most of the time.
    await Promise.all(Array.from({ length: 2 * maxConcurrency }, sendAgain));
  } finally {
    agent.destroy();
  }
  expect(withoutRetryAfter).toEqual([]);
  return statuses;
}

/** Waits until every event is done, and checks that the ledger has each once. */
async function expectEachOnce(deliveries: readonly SignedRequest[]) {
  const inbox = postgresInbox(admin);
  await vi.waitFor(
    async () => {
      const open = (await inbox.count()).filter(({ state, count }) => state !== 'done' && count > 0);
      expect(open).toEqual([]);
    },
    { timeout: 300_000, interval: 100 },
  );
  const { rows } = await admin.query<{ id: string }>('SELECT id FROM ledger');
  const ids = deliveries.map(({ body }) => JSON.parse(body.toString()).id);
  expect(rows.map(({ id }) => id).sort()).toEqual(ids.sort());
}

const statusesOf = (statuses: Record<number, number>) => Object.keys(statuses).map(Number);

// A handler in a transaction holds a connection. With a maxConcurrency below the size of the pool there is always a
// connection to record deliveries with, and none waits for the end of a handler.
test.each(['handled', 'recorded'] as const)(
  'a burst with transactions, answered once %s, does not exhaust the pool, and each event takes effect once',
  async (answer) => {
    const maxConcurrency = CONNECTIONS - 1;
    const limits = { answer, maxConcurrency };
    const { port, seen } = await serve(
      postgresInbox(openPool(), { transactional: true }),
      limits,
      bookInTransaction,
    );
    const deliveries = await makeDeliveries(DELIVERIES);
    const statuses = await send(port, deliveries, maxConcurrency);
    expect(statuses[answer === 'handled' ? 200 : 202]).toBe(DELIVERIES);
    expect(statusesOf(statuses)).toEqual(answer === 'handled' ? [200, 503] : [202]);
    await expectEachOnce(deliveries);
    expect(seen.atOnce).toBeLessThanOrEqual(maxConcurrency);
    expect([...seen.codes.keys()]).toEqual(answer === 'handled' ? ['ERR_RECEIVER_BUSY'] : []);
  },
);

test.each(['handled', 'recorded'] as const)(
  `a burst over ${KEYS} ordering keys, answered once %s, runs one event of a key at a time, and each takes effect once`,
  async (answer) => {
    const pool = openPool();
    const limits = { answer, maxConcurrency: MAX_CONCURRENCY, orderingKey: keyOf };
    const { receiver, port, seen } = await serve(postgresInbox(pool), limits, bookWith(pool));
    receiver.start();
    const deliveries = await makeDeliveries(DELIVERIES);
    const statuses = await send(port, deliveries);
    const [status, others] = answer === 'handled' ? [200, [503]] : [202, []];
    expect(statuses[status]).toBe(DELIVERIES);
    expect(statusesOf(statuses)).toEqual([status, ...others]);
    await expectEachOnce(deliveries);
    expect(seen.atOnce).toBeLessThanOrEqual(MAX_CONCURRENCY);
    expect(seen.ofOneKey).toBe(1);
    expect(seen.codes.has('ERR_INBOX_FAILED')).toBe(false);
    await receiver.close();
  },
);

test('a burst without maxConcurrency and orderingKey shows what both prevent', async () => {
  const pool = openPool();
  const { port, seen } = await serve(postgresInbox(pool), {}, bookWith(pool));
  const deliveries = await makeDeliveries(1_000);
  expect(await send(port, deliveries)).toEqual({ 200: 1_000 });
  await expectEachOnce(deliveries);
  expect(seen.atOnce).toBeGreaterThan(MAX_CONCURRENCY);
  expect(seen.ofOneKey).toBeGreaterThan(1);
});
