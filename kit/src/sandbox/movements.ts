import { EVENT_TYPES, type EventType, type UnknownPayload } from 'stablehooks';
import { CHAINS, type Chain } from 'stablehooks/client';
import * as z from 'zod/mini';
import type { Clock } from './clock.js';
import type { Feed } from './feed.js';
import { Fifo } from './fifo.js';
import type { Random } from './random.js';
import {
  amount,
  check,
  closedObject,
  milliseconds,
  nonEmptyString,
  oneOf,
  SandboxError,
} from './validation.js';
import type { WalletStore } from './wallets.js';

const TRANSFER_FAILURES = ['compliance', 'routing', 'submission'] as const;
export type TransferFailure = (typeof TRANSFER_FAILURES)[number];

const REDEEM_FAILURES = ['bank', 'compliance'] as const;
export type RedeemFailure = (typeof REDEEM_FAILURES)[number];

export type MovementKind = 'accept' | 'transfer' | 'redeem';

/** A movement is `pending` until it ends. If the bank returns a `completed` redemption, the redemption becomes `failed`. */
export type MovementState = 'pending' | 'confirmed' | 'settled' | 'completed' | 'failed';

/** A movement of money. The payload of every event about a movement contains the movement's id. */
export interface Movement {
  readonly id: string;
  readonly kind: MovementKind;
  readonly state: MovementState;
  /** The amount in USDC, as a decimal string. */
  readonly amount: string;
  readonly chain: Chain;
  /** The wallet that sends or receives the money; `null` if no wallet is involved. */
  readonly walletId: string | null;
  readonly from: string;
  /** An address, or the name of a bank. */
  readonly to: string;
  readonly reason: TransferFailure | RedeemFailure | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** An incoming deposit. */
export interface AcceptInput {
  /** The amount in USDC, as a decimal string. @default '100.00' */
  readonly amount?: string | undefined;
  /** The chain of the deposit. Omit `chain` when you pass `walletId`: a wallet has its own chain. @default 'base' */
  readonly chain?: Chain | undefined;
  /** The wallet to credit. @default none; the institution's own account is credited */
  readonly walletId?: string | undefined;
}

/** A transfer from the institution to an address on a target chain. */
export interface TransferInput {
  /** The amount in USDC, as a decimal string. @default '100.00' */
  readonly amount?: string | undefined;
  /** The target chain. @default 'base' */
  readonly chain?: Chain | undefined;
  /** The target address. @default an address that depends on the seed */
  readonly to?: string | undefined;
  /** Why the transfer fails. @default none; the transfer settles */
  readonly failsWith?: TransferFailure | undefined;
}

/** A transfer out of a wallet, subject to the wallet's limits. */
export interface SendInput {
  readonly amount: string;
  /** The target address, which must be on the wallet's allowlist. */
  readonly to: string;
  /** The target chain. @default the wallet's chain */
  readonly chain?: Chain | undefined;
  /** Why the transfer fails. @default none; the transfer settles */
  readonly failsWith?: TransferFailure | undefined;
}

/** A fiat redemption. */
export interface RedeemInput {
  /** The amount in USDC, as a decimal string. @default '100.00' */
  readonly amount?: string | undefined;
  /** The destination bank. @default 'First Example Bank' */
  readonly bank?: string | undefined;
  /** Why the redemption fails. @default none; the redemption completes */
  readonly failsWith?: RedeemFailure | undefined;
  /** How long after completion the bank returns the redemption, in milliseconds. @default the bank never returns it */
  readonly returnsAfterMs?: number | undefined;
}

/** The operations that move money. */
export interface MovementOperations {
  /** Starts an incoming deposit. Fires `accept.confirmed` when the deposit ends. */
  accept(input?: AcceptInput): Movement;
  /** Starts a transfer from the institution. Fires `transfer.settled` or `transfer.failed` when the transfer ends. */
  transfer(input?: TransferInput): Movement;
  /**
   * Starts a transfer out of a wallet. A rejected transfer changes nothing and fires no event.
   *
   * @throws {SandboxError} checked in this order: `ERR_SANDBOX_NOT_ALLOWED`, `ERR_SANDBOX_OVER_PER_TX`,
   * `ERR_SANDBOX_OVER_DAILY`, `ERR_SANDBOX_OVER_BALANCE`.
   */
  send(walletId: string, input: SendInput): Movement;
  /** Starts a payout to a bank. Fires `redeem.completed` or `redeem.failed` when the payout ends. */
  redeem(input?: RedeemInput): Movement;
  /** Returns a completed redemption, as a bank can do. Fires `redeem.failed`. @throws {SandboxError} `ERR_SANDBOX_STATE` */
  returnRedemption(id: string): Movement;
}

interface ScheduledEnd {
  readonly movementId: string;
  readonly at: number;
  readonly reason: Movement['reason'];
  readonly returnsAfterMs?: number | undefined;
}

interface Parts {
  readonly clock: Clock;
  readonly random: Random;
  readonly wallets: WalletStore;
  readonly feed: Feed;
  readonly fire: (type: string, payload: Readonly<Record<string, unknown>>) => void;
}

const chain = oneOf(CHAINS);
const failsTransfer = z.optional(oneOf(TRANSFER_FAILURES));
const acceptInput = closedObject({
  amount: z._default(amount, '100.00'),
  chain: z.optional(chain),
  walletId: z.optional(nonEmptyString),
});
const transferInput = closedObject({
  amount: z._default(amount, '100.00'),
  chain: z._default(chain, 'base'),
  to: z.optional(nonEmptyString),
  failsWith: failsTransfer,
});
const sendInput = closedObject({
  amount,
  to: nonEmptyString,
  chain: z.optional(chain),
  failsWith: failsTransfer,
});
const redeemInput = closedObject({
  amount: z._default(amount, '100.00'),
  bank: z._default(nonEmptyString, 'First Example Bank'),
  failsWith: z.optional(oneOf(REDEEM_FAILURES)),
  returnsAfterMs: z.optional(milliseconds),
});

/** Keeps all pending movements, and the newest `maxEvents` movements that have ended. */
export function createMovements(
  { clock, random, wallets, feed, fire }: Parts,
  { movementMs, maxEvents }: { readonly movementMs: number; readonly maxEvents: number },
) {
  const byId = new Map<string, Movement>();
  let ended = new Fifo<string>();
  let count = 0;

  function get(id: string): Movement {
    const movement = byId.get(id);
    if (movement !== undefined) return movement;
    throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'This movement does not exist. Start it first.');
  }

  /** Drops only ended movements, because a pending movement ties up money and will fire an event. */
  function countEnded({ id }: Movement): void {
    ended.push(id);
    const oldest = ended.length > maxEvents ? ended.shift() : undefined;
    if (oldest !== undefined) byId.delete(oldest);
  }

  function begin(
    plan: Pick<Movement, 'kind' | 'amount' | 'chain'> & {
      readonly [Field in 'walletId' | 'from' | 'to']?: string | undefined;
    },
    end: Pick<ScheduledEnd, 'reason' | 'returnsAfterMs'>,
  ): Movement {
    count += 1;
    const now = clock.now();
    const { kind, amount, chain } = plan;
    const id = `${kind}_${random.hex(`movement:${count}`, 16)}`;
    const createdAt = new Date(now).toISOString();
    const movement: Movement = {
      ...{ id, kind, state: 'pending', amount, chain },
      walletId: plan.walletId ?? null,
      from: plan.from ?? random.address(chain, `${id}:from`),
      to: plan.to ?? random.address(chain, `${id}:to`),
      ...{ reason: null, createdAt, updatedAt: createdAt },
    };
    byId.set(id, movement);
    feed.publish('movement.begun', movement);
    schedule({ ...end, movementId: id, at: now + movementMs });
    return get(id);
  }

  function schedule(end: ScheduledEnd): void {
    const pending = get(end.movementId).state === 'pending';
    if (pending) clock.begin();
    const run = () => {
      conclude(end);
      if (pending) clock.end();
    };
    const waitMs = end.at - clock.now();
    if (waitMs <= 0) run();
    else clock.after(waitMs, run);
  }

  function conclude({ movementId, reason, returnsAfterMs }: ScheduledEnd): void {
    const before = byId.get(movementId);
    // This is the scheduled return of a redemption that has already been returned or dropped.
    if (before === undefined || before.state === 'failed') return;
    const state = reason === null ? SUCCESS[before.kind] : 'failed';
    const movement: Movement = { ...before, state, reason, updatedAt: new Date(clock.now()).toISOString() };
    byId.set(movementId, movement);
    // A redemption that the bank returns ends twice, but must be counted once.
    if (before.state === 'pending') countEnded(movement);
    settleWallet(movement);
    feed.publish('movement.ended', movement);
    const { type, payload } = toEvent(random, movement);
    fire(type, payload);
    if (returnsAfterMs !== undefined && reason === null) {
      schedule({ movementId, reason: 'bank', at: clock.now() + returnsAfterMs });
    }
  }

  function settleWallet({ kind, state, walletId, amount, createdAt }: Movement): void {
    if (walletId === null) return;
    if (kind === 'accept') wallets.credit(walletId, amount);
    if (state === 'failed') wallets.refund(walletId, amount, Date.parse(createdAt));
  }

  const operations: MovementOperations = {
    accept: (input = {}) => {
      const { amount, chain, walletId } = check(acceptInput, input);
      const wallet = walletId === undefined ? undefined : wallets.get(walletId);
      if (wallet !== undefined && chain !== undefined && chain !== wallet.chain) {
        const errors = [{ field: 'chain', detail: "is not the wallet's chain" }];
        const message =
          "Nothing was changed: `chain` is not the wallet's chain. Omit `chain` when you pass `walletId`.";
        throw new SandboxError('ERR_SANDBOX_INPUT', message, { errors });
      }
      const plan = { amount, chain: wallet?.chain ?? chain ?? 'base', walletId, to: wallet?.address };
      return begin({ kind: 'accept', ...plan }, { reason: null });
    },

    transfer: (input = {}) => {
      const { failsWith = null, ...plan } = check(transferInput, input);
      return begin({ kind: 'transfer', ...plan }, { reason: failsWith });
    },

    send: (walletId, input) => {
      const { failsWith = null, amount, to, chain } = check(sendInput, input);
      const wallet = wallets.spend(walletId, { amount, to, now: clock.now() });
      const plan = { amount, chain: chain ?? wallet.chain, walletId, from: wallet.address, to };
      return begin({ kind: 'transfer', ...plan }, { reason: failsWith });
    },

    redeem: (input = {}) => {
      const { failsWith = null, amount, bank, returnsAfterMs } = check(redeemInput, input);
      return begin(
        { kind: 'redeem', amount, chain: 'base', to: bank },
        { reason: failsWith, returnsAfterMs },
      );
    },

    returnRedemption: (id) => {
      if (get(id).state !== 'completed') {
        throw new SandboxError('ERR_SANDBOX_STATE', 'Only a completed redemption can be returned.');
      }
      conclude({ movementId: id, reason: 'bank', at: clock.now() });
      return get(id);
    },
  };

  return {
    operations,
    /** Newest first. */
    list: (): Movement[] => [...byId.values()].reverse(),

    reset(): void {
      byId.clear();
      ended = new Fifo();
      count = 0;
    },
  };
}

const SUCCESS = { accept: 'confirmed', transfer: 'settled', redeem: 'completed' } as const;

/** The payload has the same form as a payload from `exampleEvent`. */
function toEvent(
  random: Random,
  movement: Omit<Movement, 'state' | 'createdAt'>,
): { readonly type: EventType; readonly payload: UnknownPayload } {
  const { id, kind, amount, chain, walletId, from, to, reason, updatedAt } = movement;
  const shared = { amount, currency: 'USDC', chain, ...(walletId !== null && { wallet_id: walletId }) };
  if (kind === 'redeem') {
    const failure = REDEEM_FAILURES.find((one) => one === reason);
    const payload = { redeem_id: id, ...shared, bank: to };
    return failure === undefined
      ? { type: 'redeem.completed', payload: { ...payload, completed_at: updatedAt } }
      : { type: 'redeem.failed', payload: { ...payload, reason: failure, failed_at: updatedAt } };
  }
  const route = { ...shared, from, to };
  const failure = TRANSFER_FAILURES.find((one) => one === reason);
  if (kind === 'transfer' && failure !== undefined) {
    const payload = { transfer_id: id, ...route, reason: failure, failed_at: updatedAt };
    return { type: 'transfer.failed', payload };
  }
  const tx_hash = random.transaction(chain, id);
  return kind === 'accept'
    ? { type: 'accept.confirmed', payload: { accept_id: id, ...route, tx_hash, confirmed_at: updatedAt } }
    : { type: 'transfer.settled', payload: { transfer_id: id, ...route, tx_hash, settled_at: updatedAt } };
}

/** Depends only on the seed and the key. For an unknown type, the payload is empty. */
export function randomPayload(
  random: Random,
  { type, key, now }: { readonly type: string; readonly key: string; readonly now: number },
): Readonly<Record<string, unknown>> {
  const known = EVENT_TYPES.find((one) => one === type);
  if (known === undefined) return {};
  const pick = <Item>(items: readonly [Item, ...Item[]]): Item =>
    items[Math.floor(random.number(`pick:${items.length}:${key}`) * items.length)] ?? items[0];
  const chain = pick(CHAINS);
  const kind = KINDS[known];
  const { payload } = toEvent(random, {
    id: `${kind}_${random.hex(`example:${key}`, 16)}`,
    kind,
    amount: `${1 + Math.floor(random.number(`amount:${key}`) * 1000)}.00`,
    chain,
    walletId: null,
    from: random.address(chain, `${key}:from`),
    to: kind === 'redeem' ? 'First Example Bank' : random.address(chain, `${key}:to`),
    reason: known.endsWith('.failed')
      ? pick(kind === 'transfer' ? TRANSFER_FAILURES : REDEEM_FAILURES)
      : null,
    updatedAt: new Date(now).toISOString(),
  });
  return payload;
}

const KINDS = {
  'accept.confirmed': 'accept',
  'transfer.settled': 'transfer',
  'transfer.failed': 'transfer',
  'redeem.completed': 'redeem',
  'redeem.failed': 'redeem',
} as const satisfies Record<EventType, MovementKind>;
