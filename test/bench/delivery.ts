/** The deliveries that every candidate gets: the same bytes, signed as each peer's service signs them. */
import { createHmac } from 'node:crypto';
import { sign } from 'stablehooks';
import Stripe from 'stripe';
import { SECRET } from './secret.js';

/** A body, and the headers that the peers look at. */
export interface SignedDelivery {
  readonly body: Buffer;
  readonly signature: string;
  readonly stripe: string;
  readonly octokit: string;
}

/** Makes different events of about `sizeBytes`, the long ones a list of movements. */
export async function makeDeliveries(
  count: number,
  { sizeBytes }: { readonly sizeBytes: number },
): Promise<readonly SignedDelivery[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => makeDelivery(index, sizeBytes)));
}

async function makeDelivery(index: number, sizeBytes: number): Promise<SignedDelivery> {
  const body = makeBody(`evt_${String(index).padStart(20, '0')}`, sizeBytes);
  const text = body.toString();
  return {
    body,
    signature: await sign(body, { secret: SECRET }),
    stripe: Stripe.webhooks.generateTestHeaderString({ payload: text, secret: SECRET }),
    octokit: `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
  };
}

/** An event of `transfer.settled`, filled up to the very size. */
export function makeBody(id: string, sizeBytes: number): Buffer {
  const movement = { transfer_id: 'tr_0001', amount: '1250.00', currency: 'USDC', chain: 'base' };
  const payload = { ...movement, movements: [] as object[], memo: '' };
  const event = {
    id,
    type: 'transfer.settled',
    created_at: '2026-01-02T03:04:05.678Z',
    payload,
    delivered: false,
  };
  const length = () => Buffer.byteLength(JSON.stringify(event));
  const each = JSON.stringify(movement).length + 1;
  const count = Math.max(0, Math.floor((sizeBytes - length()) / each) - 1);
  payload.movements = Array.from({ length: count }, () => movement);
  payload.memo = 'm'.repeat(Math.max(0, sizeBytes - length()));
  return Buffer.from(JSON.stringify(event));
}
