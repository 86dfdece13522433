/** The handlers of this app. Every process imports them. They write only through `tx`. */
import type Database from 'libsql';
import { type EventType, type Handler, type Handlers, type Synchronous, withPayload } from 'stablehooks';
import * as z from 'zod';

type Tx = Synchronous<Database.Database>;

const Movement = z.object({ amount: z.string() });

const book: Handler<EventType, Tx> = withPayload(Movement, ({ id, type, payload }, { tx }) => {
  tx.prepare('INSERT INTO ledger (event_id, type, amount) VALUES (?, ?, ?)').run(id, type, payload.amount);
});

export const handlers: Handlers<Tx> = {
  'accept.confirmed': book,
  'transfer.settled': book,
  'redeem.completed': book,
};
