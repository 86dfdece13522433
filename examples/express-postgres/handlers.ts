/** The handlers of this app. Every process imports them. They write only through `tx`. */
import { type EventType, type Handler, type Handlers, withPayload } from 'stablehooks';
import * as z from 'zod';
import { ledger, type Tx } from './db.js';

const Movement = z.object({ amount: z.string() });

const book: Handler<EventType, Tx> = withPayload(Movement, async ({ id, type, payload }, { tx }) => {
  await tx.insert(ledger).values({ eventId: id, type, amount: payload.amount });
});

export const handlers: Handlers<Tx> = {
  'accept.confirmed': book,
  'transfer.settled': book,
  'redeem.completed': book,
};
