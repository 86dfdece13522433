/** The handlers of this app. They are synchronous, and write only through `tx`. */
import { type EventType, type Handler, type Handlers, type Synchronous, withPayload } from 'stablehooks';
import * as z from 'zod';

export const LEDGER =
  'CREATE TABLE IF NOT EXISTS ledger (event_id TEXT PRIMARY KEY, type TEXT NOT NULL, amount TEXT NOT NULL)';

type Tx = Synchronous<DurableObjectStorage>;

const Movement = z.object({ amount: z.string() });

const book: Handler<EventType, Tx> = withPayload(Movement, ({ id, type, payload }, { tx }) => {
  tx.sql.exec('INSERT INTO ledger (event_id, type, amount) VALUES (?, ?, ?)', id, type, payload.amount);
});

export const handlers: Handlers<Tx> = {
  'accept.confirmed': book,
  'transfer.settled': book,
  'redeem.completed': book,
};
