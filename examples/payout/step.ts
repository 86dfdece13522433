/** The payout as a step of the handler. Its result is stored, so a later attempt gets the result instead of paying again. */
import Database from 'libsql';
import { createReceiver, type Handlers, withPayload } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import * as z from 'zod';
import { pay } from './bank.js';

const Redeemed = z.object({ redeem_id: z.string(), amount: z.string() });

export const handlers: Handlers = {
  'redeem.completed': withPayload(Redeemed, async ({ payload }, { step, idempotencyKey, signal }) => {
    const order = { redeem: payload.redeem_id, amount: payload.amount };
    const { id } = await step('payout', () => pay(order, idempotencyKey('payout'), signal));
    console.log(`paid ${order.amount} for ${order.redeem}: ${id}`);
  }),
};

const { STABLEHOOKS_SECRET = '', STABLEHOOKS_INBOX = 'app.db' } = process.env;
const db = new Database(STABLEHOOKS_INBOX);
export const inbox = sqliteInbox(db);
export const receiver = createReceiver({
  secret: STABLEHOOKS_SECRET,
  signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
  inbox,
  handlers,
});
receiver.start(); // runs failed events

export async function close() {
  await receiver.close();
  db.close();
}
