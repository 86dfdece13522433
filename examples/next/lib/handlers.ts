/** The handlers of this app. */
import { type Handlers, withPayload } from 'stablehooks';
import { RedeemFailed, TransferSettled } from './payloads';

export const handlers: Handlers = {
  'transfer.settled': withPayload(TransferSettled, async ({ payload }) => {
    console.log(`settled ${payload.amount} on ${payload.chain}: ${payload.transfer_id}`);
  }),
  'redeem.failed': withPayload(RedeemFailed, async ({ payload }) => {
    console.log(`redemption ${payload.redeem_id} failed: ${payload.reason}`);
  }),
};
