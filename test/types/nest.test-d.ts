/** Types of the Nest module: a method accepts the event of its decorator. Compiled by `npm run check`, never run. */
import { Injectable } from '@nestjs/common';
import type { Pool, PoolClient } from 'pg';
import type { HandlerContext, UnknownEvent, WebhookEvent } from 'stablehooks';
import { postgresInbox } from 'stablehooks/inboxes/postgres';
import { OnEvent, StablehooksModule, type StablehooksOptionsFactory } from 'stablehooks/nest';
import * as z from 'zod/mini';

declare const pool: Pool;

const Amount = z.object({ amount: z.string() });

/** Methods that accept the event of their decorator, or more. */
export class Accepted {
  @OnEvent('transfer.settled')
  own(event: WebhookEvent<'transfer.settled'>, context: HandlerContext): void {
    event.payload['amount'] satisfies unknown;
    context.signal.throwIfAborted();
  }

  @OnEvent('accept.confirmed')
  @OnEvent('redeem.failed')
  async two(event: WebhookEvent<'accept.confirmed' | 'redeem.failed'>): Promise<void> {
    event.type satisfies 'accept.confirmed' | 'redeem.failed';
  }

  @OnEvent('redeem.completed')
  any(event: UnknownEvent): void {
    event.type satisfies string;
  }

  @OnEvent('transfer.failed', Amount)
  withSchema(
    { payload }: WebhookEvent<'transfer.failed', z.output<typeof Amount>>,
    { tx }: HandlerContext<PoolClient>,
  ) {
    // The result of a query.
    return tx.query('insert into failures values ($1)', [payload.amount]);
  }
}

export class Refused {
  // @ts-expect-error misspelt type
  @OnEvent('transfer.setled')
  misspelt(event: WebhookEvent): void {
    event.id;
  }

  // @ts-expect-error the event of another type
  @OnEvent('transfer.settled')
  other(event: WebhookEvent<'redeem.failed'>): void {
    event.id;
  }

  // @ts-expect-error a payload that no schema checks
  @OnEvent('transfer.settled')
  unchecked(event: WebhookEvent<'transfer.settled', { readonly amount: string }>): void {
    event.id;
  }

  // @ts-expect-error a payload that is not the output of the schema
  @OnEvent('transfer.settled', Amount)
  mismatched(event: WebhookEvent<'transfer.settled', { readonly amount: number }>): void {
    event.id;
  }

  // @ts-expect-error not a schema
  @OnEvent('transfer.settled', { payload: Amount })
  option(): void {}
}

@Injectable()
class Config implements StablehooksOptionsFactory {
  readonly secret = 's';

  createStablehooksOptions() {
    return { secret: this.secret, inbox: postgresInbox(pool, { transactional: true }), path: '/in' };
  }
}

StablehooksModule.forRoot({ secret: 's', start: { intervalMs: 500 } });
StablehooksModule.forRootAsync({ useClass: Config });
StablehooksModule.forRootAsync({
  inject: [Config],
  useFactory: async (config: Config) => ({ secret: config.secret, leaseMs: 30_000 }),
});
// @ts-expect-error handlers are methods with OnEvent
StablehooksModule.forRoot({ secret: 's', handlers: {} });
// @ts-expect-error a receiver needs a secret
StablehooksModule.forRoot({ path: '/hooks' });
