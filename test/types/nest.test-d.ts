/** What the compiler promises users of Nest: a method accepts its event. Compiled by `npm run check`, never run. */
import type { HandlerContext, UnknownEvent, WebhookEvent } from 'stablehooks';
import { OnEvent, StablehooksModule } from 'stablehooks/nest';
import * as z from 'zod/mini';

interface Client {
  query(sql: string): Promise<void>;
}

/** Methods that accept the event of their decorator, or more. */
export class Accepted {
  @OnEvent('transfer.settled')
  own(event: WebhookEvent<'transfer.settled'>, context: HandlerContext): void {
    event.payload['amount'] satisfies unknown;
    context.signal.throwIfAborted();
  }

  @OnEvent('accept.confirmed')
  @OnEvent('redeem.failed', { receiver: 'treasury' })
  async two(event: WebhookEvent<'accept.confirmed' | 'redeem.failed'>): Promise<void> {
    event.type satisfies 'accept.confirmed' | 'redeem.failed';
  }

  @OnEvent('redeem.completed')
  any(event: UnknownEvent): void {
    event.type satisfies string;
  }

  @OnEvent('redeem.completed')
  none(): void {}

  @OnEvent('transfer.failed', { payload: z.object({ amount: z.string() }) })
  async withSchema(
    { payload }: WebhookEvent<'transfer.failed', { readonly amount: string }>,
    { tx }: HandlerContext<Client>,
  ): Promise<void> {
    await tx.query(payload.amount);
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

  // @ts-expect-error a payload that the schema does not give
  @OnEvent('transfer.settled', { payload: z.object({ amount: z.string() }) })
  mismatched(event: WebhookEvent<'transfer.settled', { readonly amount: number }>): void {
    event.id;
  }

  // @ts-expect-error the payload without its envelope
  @OnEvent('transfer.settled')
  payload(payload: { readonly amount: string }): void {
    payload.amount;
  }

  // @ts-expect-error a result that nobody awaits, as an Observable is
  @OnEvent('transfer.settled')
  result(): { subscribe(): void } {
    return { subscribe: () => undefined };
  }

  // @ts-expect-error a property
  @OnEvent('transfer.settled')
  readonly property = () => undefined;

  // @ts-expect-error misspelt option
  @OnEvent('transfer.settled', { reciever: 'treasury' })
  option(): void {}
}

class Config {
  readonly secret = 's';
}
StablehooksModule.forRootAsync({
  inject: [Config],
  useFactory: async (config: Config) => ({ secret: config.secret, leaseMs: 30_000 }),
});
// @ts-expect-error handlers are methods with OnEvent
StablehooksModule.forRoot({ secret: 's', handlers: {} });
// @ts-expect-error there is no receiver without a secret
StablehooksModule.forRoot({ path: '/hooks' });
