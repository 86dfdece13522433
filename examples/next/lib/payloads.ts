/** The payloads that this app expects. The service does not specify them. */
import * as z from 'zod';

export const TransferSettled = z.object({
  transfer_id: z.string(),
  chain: z.string(),
  // A string, because a number would round it.
  amount: z.string().regex(/^\d+(\.\d+)?$/),
});

export const RedeemFailed = z.object({ redeem_id: z.string(), reason: z.string() });
