import { type Handler, PermanentError, RetryLater } from 'stablehooks';

export interface Bank {
  pay(order: {
    readonly to: unknown;
    readonly amount: unknown;
    readonly idempotencyKey?: string;
  }): Promise<{ readonly id: string }>;
}

export interface Mailer {
  send(message: { readonly to: unknown; readonly text: string; readonly id: string }): Promise<void>;
}

/** The bank recognises a repeated call by its key. If a response is lost, the payout is sent again but not paid again. */
export const payWithKey =
  (bank: Bank, mailer: Mailer): Handler<'redeem.completed'> =>
  async ({ payload }, { step, idempotencyKey }) => {
    const { account: to, amount, email } = payload;
    const payout = await step('payout', () =>
      bank.pay({ to, amount, idempotencyKey: idempotencyKey('payout') }),
    );
    await step('mail', () =>
      mailer.send({ to: email, text: `Payout ${payout.id} is on its way.`, id: idempotencyKey('mail') }),
    );
  };

/** The bank has no idempotency keys. If a response is lost, the payout waits for a person. */
export const payWithoutKey =
  (bank: Bank): Handler<'redeem.completed'> =>
  async ({ payload }, { step }) => {
    const { account: to, amount } = payload;
    await step(
      'payout',
      async () => {
        try {
          return await bank.pay({ to, amount });
        } catch (error) {
          // The bank responded that nothing was paid. After any other error, that is unknown.
          if (error instanceof BankClosed) throw new RetryLater({ afterMs: 900_000, reason: error.message });
          throw error;
        }
      },
      { onInterrupted: 'fail' },
    );
  };

export class BankClosed extends Error {}

export interface Orders {
  /** Resolves to whether the order exists. */
  settle(id: string): Promise<boolean>;
}

/** The webhook may arrive before the transaction that inserts the order commits. */
export const settleOrder =
  (orders: Orders): Handler<'transfer.settled'> =>
  async ({ payload }) => {
    const { order_id: id } = payload;
    if (typeof id !== 'string') throw new PermanentError('the transfer has no order_id');
    if (await orders.settle(id)) return;
    throw new RetryLater({ afterMs: 60_000, reason: `order ${id} is not committed yet` });
  };
