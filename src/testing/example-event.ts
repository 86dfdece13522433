/** Example events, one of each type. `service.md` specifies no payload: these are made up, and plausible. */
import type { EventType, UnknownPayload, WebhookEvent } from '../core/events.js';

const PAYLOADS: Readonly<Record<EventType, UnknownPayload>> = {
  'accept.confirmed': {
    accept_id: 'acc_01JZ8Q4T7M',
    chain: 'base',
    asset: 'USDC',
    amount: '2500.00',
    from: '0x8Ba1f109551bD432803012645Ac136ddd64DBA72',
    to: '0x52908400098527886E0F7030069857D2E4169EE7',
    transaction: '0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060',
  },
  'transfer.settled': {
    transfer_id: 'trf_01JZ8Q6W2C',
    chain: 'solana',
    asset: 'USDC',
    amount: '1049.999999',
    to: '9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin',
  },
  'transfer.failed': {
    transfer_id: 'trf_01JZ8Q7B9K',
    chain: 'tempo',
    asset: 'USDC',
    amount: '75.10',
    stage: 'compliance',
    reason: 'The destination is not on the allowlist.',
  },
  'redeem.completed': {
    redemption_id: 'red_01JZ8Q8N3P',
    amount: '10000.00',
    currency: 'USD',
    bank_reference: 'FT24190QX7',
  },
  'redeem.failed': {
    redemption_id: 'red_01JZ8Q9R5D',
    amount: '310.55',
    currency: 'EUR',
    stage: 'bank',
    reason: 'The account is closed.',
  },
};

/**
 * An event of a type, with an id of its own, as the service could send it.
 *
 * @param overrides - keys of the envelope to set; a `payload` replaces the example's whole payload.
 *
 * @example
 * ```ts
 * exampleEvent('transfer.settled', { payload: { transfer_id: 'trf_1', amount: '1.00' } });
 * ```
 */
export function exampleEvent<Type extends EventType>(
  type: Type,
  overrides?: Partial<Omit<WebhookEvent, 'type'>>,
): WebhookEvent<Type> {
  const event = {
    id: `evt_${crypto.randomUUID()}`,
    type,
    created_at: '2026-07-14T09:30:00.000Z',
    payload: structuredClone(PAYLOADS[type]),
    ...overrides,
  };
  return event as WebhookEvent<Type>;
}
