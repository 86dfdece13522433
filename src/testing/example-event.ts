import type { EventType, UnknownPayload, WebhookEvent } from '../core/events.js';

const PAYLOADS: Readonly<Record<EventType, UnknownPayload>> = {
  'accept.confirmed': {
    accept_id: 'accept_01JZ8Q4T7M',
    amount: '2500.00',
    currency: 'USDC',
    chain: 'base',
    from: '0x8Ba1f109551bD432803012645Ac136ddd64DBA72',
    to: '0x52908400098527886E0F7030069857D2E4169EE7',
    tx_hash: '0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060',
    confirmed_at: '2026-07-14T09:29:58.000Z',
  },
  'transfer.settled': {
    transfer_id: 'transfer_01JZ8Q6W2C',
    amount: '1049.999999',
    currency: 'USDC',
    chain: 'solana',
    wallet_id: 'wal_01JZ8Q5F1D',
    from: '7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU',
    to: '9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin',
    tx_hash: '5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW',
    settled_at: '2026-07-14T09:29:58.000Z',
  },
  'transfer.failed': {
    transfer_id: 'transfer_01JZ8Q7B9K',
    amount: '75.10',
    currency: 'USDC',
    chain: 'tempo',
    from: '0x52908400098527886E0F7030069857D2E4169EE7',
    to: '0xde709f2102306220921060314715629080e2fb77',
    reason: 'compliance',
    failed_at: '2026-07-14T09:29:58.000Z',
  },
  'redeem.completed': {
    redeem_id: 'redeem_01JZ8Q8N3P',
    amount: '10000.00',
    currency: 'USDC',
    chain: 'base',
    bank: 'First Example Bank',
    completed_at: '2026-07-14T09:29:58.000Z',
  },
  'redeem.failed': {
    redeem_id: 'redeem_01JZ8Q9R5D',
    amount: '310.55',
    currency: 'USDC',
    chain: 'base',
    bank: 'First Example Bank',
    reason: 'bank',
    failed_at: '2026-07-14T09:29:58.000Z',
  },
};

/**
 * Creates an event of a type, with a new random id and an example as its payload. The service does not specify its
 * payloads: check your schemas against real events.
 *
 * @param overrides - keys of the envelope to set. A `payload` replaces the whole payload of the example.
 *
 * @example
 * ```ts
 * exampleEvent('transfer.settled', { payload: { transfer_id: 'transfer_1', amount: '1.00' } });
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
