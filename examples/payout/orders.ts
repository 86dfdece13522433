/**
 * The version for transactional SQLite, where handlers are synchronous. A handler writes an order, which commits together
 * with its event. A second step pays the orders.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'libsql';
import { createReceiver, type Handlers, type Synchronous, withPayload } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import * as z from 'zod';
import { pay } from './bank.js';

const Redeemed = z.object({ redeem_id: z.string(), amount: z.string() });

export const handlers: Handlers<Synchronous<Database.Database>> = {
  'redeem.completed': withPayload(Redeemed, ({ payload }, { tx, idempotencyKey }) => {
    const order = [idempotencyKey('payout'), payload.redeem_id, payload.amount];
    tx.prepare('INSERT INTO orders (key, redeem, amount) VALUES (?, ?, ?)').run(...order);
  }),
};

const { STABLEHOOKS_SECRET = '', STABLEHOOKS_INBOX = 'app.db' } = process.env;
const db = new Database(STABLEHOOKS_INBOX);
export const inbox = sqliteInbox(db, { transactional: true });
db.exec('CREATE TABLE IF NOT EXISTS orders (key TEXT PRIMARY KEY, redeem TEXT, amount TEXT, payout TEXT)');
export const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
  inbox,
  handlers,
});
receiver.start(); // runs failed events

interface Order {
  readonly key: string;
  readonly redeem: string;
  readonly amount: string;
}

/** Pays unpaid orders. After a crash between a payment and its record, the key makes the bank return the first payout. */
async function carryOut(order: Order, signal: AbortSignal) {
  try {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(10_000)]);
    const { id } = await pay({ redeem: order.redeem, amount: order.amount }, order.key, limit);
    db.prepare('UPDATE orders SET payout = ? WHERE key = ?').run(id, order.key);
    console.log(`paid ${order.amount} for ${order.redeem}: ${id}`);
  } catch (error) {
    if (!signal.aborted) console.error(`order ${order.key} is not paid yet:`, error);
  }
}

const closing = new AbortController();
const done = (async () => {
  while (!closing.signal.aborted) {
    const orders = db.prepare('SELECT key, redeem, amount FROM orders WHERE payout IS NULL').all() as Order[];
    for (const order of orders) await carryOut(order, closing.signal);
    await sleep(1_000, undefined, { signal: closing.signal }).catch(() => undefined);
  }
})();

export async function close() {
  await receiver.close();
  closing.abort();
  await done;
  db.close();
}
