/** The handlers of this app. They are methods of a provider, and write only through `tx`. */
import { Injectable } from '@nestjs/common';
import type { EventType, HandlerContext, WebhookEvent } from 'stablehooks';
import { OnEvent } from 'stablehooks/nest';
import * as z from 'zod';
import type { Prisma } from '../generated/client.js';

const Movement = z.object({ amount: z.string() });
type Moved<Type extends EventType> = WebhookEvent<Type, z.output<typeof Movement>>;
type Context = HandlerContext<Prisma.TransactionClient>;

/** A service of the app. It uses the caller's transaction. */
@Injectable()
export class Ledger {
  async book({ id, type, payload }: Moved<EventType>, tx: Prisma.TransactionClient) {
    await tx.ledger.create({ data: { eventId: id, type, amount: payload.amount } });
  }
}

@Injectable()
export class Movements {
  constructor(private readonly ledger: Ledger) {}

  @OnEvent('accept.confirmed', Movement)
  accepted(event: Moved<'accept.confirmed'>, { tx }: Context) {
    return this.ledger.book(event, tx);
  }

  @OnEvent('transfer.settled', Movement)
  settled(event: Moved<'transfer.settled'>, { tx }: Context) {
    return this.ledger.book(event, tx);
  }

  @OnEvent('redeem.completed', Movement)
  redeemed(event: Moved<'redeem.completed'>, { tx }: Context) {
    return this.ledger.book(event, tx);
  }
}
