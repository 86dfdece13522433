/** Each fault that docs/why.md names in the handler by hand, beside the same deliveries to a receiver. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import Libsql from 'libsql';
import { createReceiver } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { toNodeHandler } from 'stablehooks/node';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { createApp } from '../examples/by-hand.js';
import { blocksOf, squeeze } from './project/markdown.js';
import { textOf } from './project/source.js';

const secret = 'whsec_why';

/** A ledger in SQLite, whose next credits can fail. */
function makeLedger() {
  const db = new Libsql(':memory:');
  db.exec(
    'CREATE TABLE ledger (account TEXT, amount TEXT); CREATE TABLE webhook_events (id TEXT PRIMARY KEY)',
  );
  let failures = 0;
  const credit = (account: string, amount: unknown) => {
    if (failures-- > 0) throw new Error('The database is locked.');
    db.prepare('INSERT INTO ledger VALUES (?, ?)').run(account, String(amount));
  };
  return {
    db,
    credit,
    failOnce: () => {
      failures = 1;
    },
    amounts: () => db.prepare('SELECT amount FROM ledger').pluck().all(),
  };
}
type Ledger = ReturnType<typeof makeLedger>;

const byHand = ({ db, credit }: Ledger): RequestListener =>
  createApp(secret, {
    async insertEvent(id) {
      return db.prepare('INSERT OR IGNORE INTO webhook_events VALUES (?)').run(id).changes === 1;
    },
    async credit(account, amount) {
      credit(account, amount);
    },
  });

/** Its clock moves on by an hour at each look, so that the next delivery is a retry that is due. */
const withStablehooks = ({ db, credit }: Ledger): RequestListener => {
  let now = Date.now();
  return toNodeHandler(
    createReceiver({
      secret,
      inbox: sqliteInbox(db, { transactional: true, runtime: { now: () => (now += 3_600_000) } }),
      logger: { error() {}, warn() {} },
      handlers: {
        'transfer.settled': ({ payload }) => credit(String(payload['account']), payload['amount']),
      },
    }),
  );
};

const running: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of running.splice(0)) await stop();
});

/** Sends each body in order, signed, and resolves to the statuses. */
async function deliver(listener: RequestListener, bodies: readonly string[], sign = hex) {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  running.push(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  const statuses: number[] = [];
  for (const body of bodies) {
    const headers = { 'content-type': 'application/json', 'x-service-signature': sign(body) };
    statuses.push((await fetch(url, { method: 'POST', headers, body })).status);
  }
  return statuses;
}

const hex = (body: string) => createHmac('sha256', secret).update(body).digest('hex');
const base64 = (body: string) => createHmac('sha256', secret).update(body).digest('base64');
const eventOf = (payload: string, type = 'transfer.settled') =>
  `{"id":"evt_1","type":"${type}","delivered":false,"created_at":"2026-11-26T10:00:00Z","payload":${payload}}`;
const transfer = eventOf('{"account":"a","amount":"1.50"}');

interface Fault {
  readonly fault: string;
  readonly bodies: readonly string[];
  readonly sign?: typeof hex;
  readonly failsOnce?: boolean;
  /** The statuses and the ledger of the handler by hand, then of the receiver. */
  readonly found: readonly [readonly number[], readonly string[]];
  readonly right: readonly [readonly number[], readonly string[]];
}

const FAULTS: readonly Fault[] = [
  {
    fault: 'a row before the work, and 200 after an error: the event is lost',
    bodies: [transfer, transfer],
    failsOnce: true,
    found: [[200, 200], []],
    right: [[500, 200], ['1.50']],
  },
  {
    fault: 'the body is parsed and written again: other spaces are refused',
    bodies: [transfer.replace(':', ': ')],
    found: [[401], []],
    right: [[200], ['1.50']],
  },
  {
    fault: 'the signature is compared as text: another encoding of it is refused',
    bodies: [transfer],
    sign: base64,
    found: [[401], []],
    right: [[200], ['1.50']],
  },
  {
    fault: 'an amount becomes a number: the ledger has another amount',
    bodies: [eventOf('{"account":"a","amount":"12345678901234567.89"}')],
    found: [[200], ['12345678901234568']],
    right: [[200], ['12345678901234567.89']],
  },
  {
    fault: 'an unknown type is refused: the service sends a new type again and again, or never',
    bodies: [eventOf('{}', 'accept.reversed'), eventOf('{}', 'accept.reversed')],
    found: [[400, 200], []],
    right: [[200, 200], []],
  },
];

describe('docs/why.md', () => {
  test.each(FAULTS)('$fault', async ({ bodies, sign, failsOnce, found, right }) => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined);
    running.push(() => vi.restoreAllMocks());
    for (const [toListener, expected] of [
      [byHand, found],
      [withStablehooks, right],
    ] as const) {
      const ledger = makeLedger();
      if (failsOnce) ledger.failOnce();
      const statuses = await deliver(toListener(ledger), bodies, sign);
      expect([statuses, ledger.amounts()]).toEqual(expected);
    }
  });

  test('shows the handler that is tested here', () => {
    expect(squeeze(blocksOf(textOf('docs/why.md'), 'ts')[0] ?? '')).toBe(
      squeeze(textOf('examples/by-hand.ts')),
    );
  });
});
