/**
 * The receiver of this app. Next bundles each router, and each worker, apart, so each holds a copy of it: give
 * it an inbox in a database where one copy must know what another has handled.
 */
import { createReceiver } from 'stablehooks';
import { RedeemFailed, TransferSettled } from './payloads';

// `next build` loads this module where there is no secret yet: ask for it at the delivery.
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
