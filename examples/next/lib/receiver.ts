/**
 * The receiver of this app. Next bundles each router and each worker separately, so each has a receiver of its own.
 * In production, use an inbox in a database, so that all of them know what is handled.
 */
import { createReceiver } from 'stablehooks';
import { RedeemFailed, TransferSettled } from './payloads';

// A function, because `next build` loads this module where no secret exists. It is called at each delivery.
const secret = () => process.env['WEBHOOK_SECRET'] ?? '';

export const receiver = createReceiver({
  secret,
  payloads: { 'transfer.settled': TransferSettled, 'redeem.failed': RedeemFailed },
  handlers: {
    'transfer.settled': async ({ payload }) => {
      console.log(`settled ${payload.amount} on ${payload.chain}: ${payload.transfer_id}`);
    },
    'redeem.failed': async ({ payload }) => {
      console.log(`redemption ${payload.redeem_id} failed: ${payload.reason}`);
    },
  },
});
