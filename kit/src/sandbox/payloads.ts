/** Payloads: what each event says of the movement behind it, made up, as `service.md` does not specify it. */
import { EVENT_TYPES, type EventType } from 'stablehooks';
import { CHAINS, toAddress, toTransactionId } from './chains.js';
import { type Movement, REDEEM_FAILURES, TRANSFER_FAILURES } from './movements.js';
import type { Random } from './random.js';

/** The event type that tells how a movement ended. */
export function toEventType({ kind, state }: Movement): EventType {
  if (kind === 'accept') return 'accept.confirmed';
  if (kind === 'transfer') return state === 'failed' ? 'transfer.failed' : 'transfer.settled';
  return state === 'failed' ? 'redeem.failed' : 'redeem.completed';
}

/** The payload of the event that tells how a movement ended. */
export function toPayload(random: Random, movement: Movement): Readonly<Record<string, unknown>> {
  const { id, kind, amount, chain, walletId, from, to, reason, updatedAt } = movement;
  const core = { amount, currency: 'USDC', chain, ...(walletId === null ? {} : { walletId }) };
  const failure = reason === null ? {} : { reason };
  if (kind === 'redeem') {
    const ended = reason === null ? { completedAt: updatedAt } : { failedAt: updatedAt };
    return { redeemId: id, ...core, bank: to, ...ended, ...failure };
  }
  const txHash = toTransactionId(random, { chain, of: id });
  if (kind === 'accept') return { acceptId: id, ...core, from, to, txHash, confirmedAt: updatedAt };
  if (reason !== null) return { transferId: id, ...core, from, to, ...failure, failedAt: updatedAt };
  return { transferId: id, ...core, from, to, txHash, settledAt: updatedAt };
}

/** A payload for an event that no movement is behind; an unknown type gets an empty one. */
export function toExample(
  random: Random,
  { type, key, now }: { readonly type: string; readonly key: string; readonly now: number },
): Readonly<Record<string, unknown>> {
  const known = EVENT_TYPES.find((one) => one === type);
  if (known === undefined) return {};
  const time = new Date(now).toISOString();
  const pick = <Item>(items: readonly [Item, ...Item[]]): Item =>
    items[Math.floor(random.number(`pick:${items.length}:${key}`) * items.length)] ?? items[0];
  const chain = pick(CHAINS);
  const kind = KINDS[known];
  const reasons = kind === 'transfer' ? TRANSFER_FAILURES : REDEEM_FAILURES;
  return toPayload(random, {
    id: `${kind}_${random.hex(`example:${key}`, { digits: 16 })}`,
    kind,
    state: 'pending',
    amount: `${1 + Math.floor(random.number(`amount:${key}`) * 1000)}.00`,
    chain,
    walletId: null,
    from: toAddress(random, { chain, of: `${key}:from` }),
    to: kind === 'redeem' ? 'First Example Bank' : toAddress(random, { chain, of: `${key}:to` }),
    reason: known.endsWith('.failed') ? pick(reasons) : null,
    createdAt: time,
    updatedAt: time,
  });
}

const KINDS = {
  'accept.confirmed': 'accept',
  'transfer.settled': 'transfer',
  'transfer.failed': 'transfer',
  'redeem.completed': 'redeem',
  'redeem.failed': 'redeem',
} as const satisfies Record<EventType, Movement['kind']>;
