import type { EventType, UnknownPayload, WebhookEvent } from '../core/events.js';

const AT = '2026-07-14T09:29:58.000Z';
const ALICE = '0x52908400098527886E0F7030069857D2E4169EE7';
const BOB = '0x8Ba1f109551bD432803012645Ac136ddd64DBA72';
const HASH = '0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060';
const MOVEMENT = { amount: '1049.999999', currency: 'USDC', chain: 'base' };
const ROUTE = { ...MOVEMENT, from: ALICE, to: BOB };
const WALLET = { ...MOVEMENT, wallet_id: 'wal_01JZ8Q5F1D', from: ALICE, to: BOB };
const REDEMPTION = { redeem_id: 'redeem_01JZ8Q8N3P', ...MOVEMENT, bank: 'First Example Bank' };

const PAYLOADS: Readonly<Record<EventType, UnknownPayload>> = {
  'accept.confirmed': { accept_id: 'accept_01JZ8Q4T7M', ...ROUTE, tx_hash: HASH, confirmed_at: AT },
  'transfer.settled': { transfer_id: 'transfer_01JZ8Q6W2C', ...WALLET, tx_hash: HASH, settled_at: AT },
  'transfer.failed': { transfer_id: 'transfer_01JZ8Q7B9K', ...ROUTE, reason: 'compliance', failed_at: AT },
  'redeem.completed': { ...REDEMPTION, completed_at: AT },
  'redeem.failed': { ...REDEMPTION, reason: 'bank', failed_at: AT },
};

/**
 * Creates an event of the given type, with a random id and an example payload. The service doesn't specify its payloads, so
 * check your schemas against real events.
 *
 * @param overrides - the fields of the event to set. A `payload` replaces the entire example payload.
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
