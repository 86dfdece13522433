/** What this app expects in payloads: the service does not specify them, so the app says what it relies on. */
import * as z from 'zod';

export const TransferSettled = z.object({
  transfer_id: z.string(),
  chain: z.string(),
  // Text from end to end: a number would round it.
  amount: z.string().regex(/^\d+(\.\d+)?$/),
});

export const RedeemFailed = z.object({ redeem_id: z.string(), reason: z.string() });
