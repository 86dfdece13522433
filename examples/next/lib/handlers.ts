/** What this app does with events. */
import type { Handlers } from 'stablehooks';
import { RedeemFailed, TransferSettled } from './payloads';

export const payloads = { 'transfer.settled': TransferSettled, 'redeem.failed': RedeemFailed };

export const handlers: Handlers<typeof payloads> = {
  'transfer.settled': async ({ payload }) => {
    console.log(`settled ${payload.amount} on ${payload.chain}: ${payload.transfer_id}`);
  },
  'redeem.failed': async ({ payload }) => {
    console.log(`redemption ${payload.redeem_id} failed: ${payload.reason}`);
  },
};

// A function, because `next build` loads this module where no secret exists. It is called at each delivery.
export const secret = () => process.env['WEBHOOK_SECRET'] ?? '';
