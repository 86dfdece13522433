/** The recipes of docs/effects.md. */
import fc from 'fast-check';
import Libsql from 'libsql';
import { createReceiver, type Handlers, type Receiver, type UnknownEvent } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { exampleEvent } from 'stablehooks/testing';
import { describe, expect, test } from 'vitest';
import { BankClosed, payWithKey, payWithoutKey, settleOrder } from '../examples/effects.js';
import { bookInPostgres, bookInSqlite, TABLES } from '../examples/ledger.js';
import { atNight } from './nightly.js';
import { blocksOf, squeeze } from './project/markdown.js';
import { textOf } from './project/source.js';
import { ownPostgres } from './services/own-postgres.js';

const SILENT = { warn: () => undefined, error: () => undefined };

/** A receiver over an inbox that outlives it. */
function setUp(handlers: Handlers) {
  const inbox = { ...sqliteInbox(new Libsql(':memory:')), durable: true };
  const receiver = createReceiver({ secret: 'effects', inbox, handlers, logger: SILENT });
  const handle = async (event: UnknownEvent) => (await receiver.handle(event, 'push')).kind;
  return { inbox, handle };
}

/** A bank that counts payouts by their keys, and can lose an answer. */
function makeBank() {
  const payouts = new Map<string, { readonly id: string }>();
  const faults: (() => void)[] = [];
  return {
    payouts,
    faults,
    async pay({ idempotencyKey = `call ${payouts.size}` }: { readonly idempotencyKey?: string }) {
      const payout = payouts.get(idempotencyKey) ?? { id: `pay_${payouts.size}` };
      payouts.set(idempotencyKey, payout);
      faults.shift()?.();
      return payout;
    },
  };
}

const lostAnswer = () => {
  throw new Error('socket hang up');
};

describe('payouts and e-mail', () => {
  test('with a key, a lost answer and a failed mail lead to one payout and one mail', async () => {
    const bank = makeBank();
    bank.faults.push(lostAnswer);
    const mails: string[] = [];
    let failures = 1;
    const send = async ({ id }: { readonly id: string }) => {
      if (failures-- > 0) throw new Error('the mailer is down');
      mails.push(id);
    };
    const { inbox, handle } = setUp({ 'redeem.completed': payWithKey(bank, { send }) });
    const event = exampleEvent('redeem.completed');
    for (const kind of ['failed', 'failed', 'handled']) {
      expect(await handle(event)).toBe(kind);
      await inbox.requeue(event.id);
    }
    expect([bank.payouts.size, mails.length]).toEqual([1, 1]);
  });

  test('without a key, a lost answer waits for a person, who states what happened', async () => {
    const bank = makeBank();
    bank.faults.push(lostAnswer);
    const { inbox, handle } = setUp({ 'redeem.completed': payWithoutKey(bank) });
    const event = exampleEvent('redeem.completed');
    expect(await handle(event)).toBe('dead');
    expect(await inbox.requeue(event.id)).toBe(0);
    expect(await inbox.requeue({ ids: [event.id], steps: { payout: 'done' } })).toBe(1);
    expect(await handle(event)).toBe('handled');
    expect(bank.payouts.size).toBe(1);
  });

  test('without a key, a bank that is closed is asked again later', async () => {
    const bank = { pay: () => Promise.reject(new BankClosed('the bank is closed')) };
    const { inbox, handle } = setUp({ 'redeem.completed': payWithoutKey(bank) });
    const event = exampleEvent('redeem.completed');
    expect(await handle(event)).toBe('queued');
    expect([await inbox.steps(event.id), (await inbox.find(event.id))?.state]).toEqual([[], 'received']);
  });
});

test('an event that is faster than its order is settled once the order exists', async () => {
  const orders = new Set<string>();
  const { handle } = setUp({ 'transfer.settled': settleOrder({ settle: async (id) => orders.has(id) }) });
  const event = { ...exampleEvent('transfer.settled'), payload: { order_id: 'order_1' } };
  expect(await handle(event)).toBe('queued');
  orders.add('order_1');
  expect(await handle(event)).toBe('handled');
});

/** Seven events about two redeems; in the account of one, the last event is a failure. */
function someRedeems(run: number): readonly UnknownEvent[] {
  const plan = [
    ...['1 completed 1.50', '1 failed 1.50', '1 completed 2.25', '1 failed 2.25'],
    ...['2 failed 3.00', '2 completed 3.00', '2 completed 4.75'],
  ];
  return plan.map((line, index) => {
    const [redeem, what, amount] = line.split(' ');
    return {
      id: `evt_${run}_${index}`,
      type: `redeem.${what}`,
      created_at: new Date(Date.UTC(2026, 0, 1, 0, 0, index)).toISOString(),
      payload: { redeem_id: `redeem_${run}_${redeem}`, account: `${run} ${redeem}`, amount },
    };
  });
}

/** Each event at least once, in any order, with repetitions. */
const deliveries = fc
  .tuple(
    fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6], { minLength: 7 }),
    fc.array(fc.tuple(fc.nat(6), fc.nat(20)), { maxLength: 7 }),
  )
  .map(([order, again]) => {
    const all = [...order];
    for (const [index, at] of again) all.splice(at % (all.length + 1), 0, index);
    return all;
  });

interface Books {
  readonly receiver: Receiver;
  total(): Promise<number>;
  /** The accounts with this beginning that are not balanced. */
  balances(like: string): Promise<Readonly<Record<string, number>>>;
}

async function checkOrder(books: Books, run: number, order: readonly number[]): Promise<void> {
  const events = someRedeems(run);
  for (const index of order) {
    const event = events[index] as UnknownEvent;
    const { kind } = await books.receiver.handle(event, 'push');
    expect(['handled', 'duplicate']).toContain(kind);
    // Debits equal credits at every commit.
    expect(await books.total()).toBe(0);
  }
  // The last event of the first redeem is a failure, and that of the second completed it.
  expect(await books.balances(`customer ${run} %`)).toEqual({ [`customer ${run} 2`]: -475 });
}

const SUMS = `SELECT account, sum(cents) AS cents FROM entries WHERE account LIKE $1
GROUP BY account HAVING sum(cents) <> 0`;
const TOTAL = 'SELECT coalesce(sum(cents), 0) AS cents FROM entries';
type Sum = { readonly account: string; readonly cents: number | string };
const toBalances = (sums: readonly Sum[]) =>
  Object.fromEntries(sums.map(({ account, cents }) => [account, Number(cents)]));

describe('the ledger', () => {
  const orders = [...permutations([0, 1, 2, 3, 4, 5, 6])].filter((_, index) => index % atNight(1, 7) === 0);
  test(`${orders.length} of the 5040 orders of seven events give the same balances in SQLite, and so do repetitions`, async () => {
    let run = 0;
    let books = openSqlite();
    for (const order of orders) {
      // A new ledger now and then, because the sum over all accounts is read at every commit.
      if (run % 10 === 0) books = openSqlite();
      run += 1;
      await checkOrder(books, run, [...order, ...order.slice(0, run % 3)]);
    }
    await fc.assert(
      fc.asyncProperty(deliveries, async (order) => checkOrder(openSqlite(), 1, order)),
      { numRuns: 200 },
    );
  }, 300_000);

  function openSqlite(): Books {
    const db = new Libsql(':memory:');
    for (const table of TABLES) db.exec(table);
    const inbox = sqliteInbox(db, { transactional: true });
    return {
      receiver: createReceiver({
        secret: 'effects',
        inbox,
        logger: SILENT,
        handlers: {
          'redeem.completed': (event, { tx }) => bookInSqlite(tx, event),
          'redeem.failed': (event, { tx }) => bookInSqlite(tx, event),
        },
      }),
      total: async () => (db.prepare(TOTAL).get() as Sum).cents as number,
      balances: async (like) => toBalances(db.prepare(SUMS.replace('$1', '?')).all(like) as Sum[]),
    };
  }

  describe('in Postgres', () => {
    const { pool } = ownPostgres(...TABLES);

    test('orders and repetitions of seven events give the same balances, also at the same time', async () => {
      const receiver = createReceiver({
        secret: 'effects',
        inbox: postgresInbox(pool, { transactional: true }),
        logger: SILENT,
        handlers: {
          'redeem.completed': (event, { tx }) => bookInPostgres(tx, event),
          'redeem.failed': (event, { tx }) => bookInPostgres(tx, event),
        },
      });
      const books: Books = {
        receiver,
        total: async () => Number((await pool.query(TOTAL)).rows[0].cents),
        balances: async (like) => toBalances((await pool.query(SUMS, [like])).rows as Sum[]),
      };
      let run = 0;
      await fc.assert(
        fc.asyncProperty(deliveries, async (order) => {
          run += 1;
          await checkOrder(books, run, order);
        }),
        { numRuns: 60 },
      );
      const together = someRedeems(0);
      await Promise.all([...together, ...together].map((event) => receiver.handle(event, 'push')));
      expect(await books.balances('customer 0 %')).toEqual({ 'customer 0 2': -475 });
    }, 300_000);
  });
});

function* permutations(items: readonly number[]): Generator<readonly number[]> {
  if (items.length === 0) yield [];
  for (const item of items) {
    for (const rest of permutations(items.filter((other) => other !== item))) yield [item, ...rest];
  }
}

test('docs/effects.md shows the recipes and the statements that are tested here', () => {
  const page = textOf('docs/effects.md');
  expect(blocksOf(page, 'ts').map(squeeze)).toContain(squeeze(textOf('examples/effects.ts')));
  const statements = blocksOf(page, 'sql').map((block) => block.trim());
  expect(statements).toHaveLength(2);
  for (const statement of statements) expect(textOf('examples/ledger.ts')).toContain(statement);
});
