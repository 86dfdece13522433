/** The handlers of this app. Both routes import them. They write only through `tx`. */
import type { PoolClient } from 'pg';
import { type EventType, type Handler, type Handlers, withPayload } from 'stablehooks';
import * as z from 'zod';

const Movement = z.object({ amount: z.string() });

const book: Handler<EventType, PoolClient> = withPayload(Movement, async ({ id, type, payload }, { tx }) => {
  const entry = [id, type, payload.amount];
  await tx.query('INSERT INTO ledger (event_id, type, amount) VALUES ($1, $2, $3)', entry);
});

export const handlers: Handlers<PoolClient> = {
  'accept.confirmed': book,
  'transfer.settled': book,
  'redeem.completed': book,
};
