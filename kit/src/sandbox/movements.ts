/** Movements of money: accept, transfer and redeem, how each ends, and the event that says so. */
import { type Chain, toAddress } from './chains.js';
import { Fifo } from './fifo.js';
import { SandboxError } from './problem.js';
import type { Random } from './random.js';

/** Why a transfer fails (`service.md`, events). */
export const TRANSFER_FAILURES = ['compliance', 'routing', 'submission'] as const;
/** Why a redemption fails (`service.md`, events). */
export const REDEEM_FAILURES = ['bank', 'compliance'] as const;

export type TransferFailure = (typeof TRANSFER_FAILURES)[number];
export type RedeemFailure = (typeof REDEEM_FAILURES)[number];

export type MovementKind = 'accept' | 'transfer' | 'redeem';

/** `pending` until it ends; a completed redemption that the bank sends back is `failed` in the end. */
export type MovementState = 'pending' | 'confirmed' | 'settled' | 'completed' | 'failed';

/** A movement of money. Its id is in the payload of each of its events. */
export interface Movement {
  readonly id: string;
  readonly kind: MovementKind;
  readonly state: MovementState;
  /** Decimal text, in USDC. */
  readonly amount: string;
  readonly chain: Chain;
  /** The wallet that it went out of or into, if any. */
  readonly walletId: string | null;
  readonly from: string;
  /** An address, or the name of a bank. */
  readonly to: string;
  readonly reason: TransferFailure | RedeemFailure | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What {@link createMovements} keeps in a state file. */
export interface MovementsState {
  readonly count: number;
  readonly movements: readonly Movement[];
}

export type Movements = ReturnType<typeof createMovements>;

/** The record of movements: those pending, and the newest `keptMovements` of those that ended. */
export function createMovements(options: { readonly random: Random; readonly keptMovements: number }) {
  const { random, keptMovements } = options;
  let ended = new Fifo<string>();
  let byId = new Map<string, Movement>();
  let count = 0;

  function keep(movement: Movement): Movement {
    byId.set(movement.id, movement);
    return movement;
  }

  /** Only what has ended may be forgotten: a pending movement holds money, and owes its event. */
  function countEnded({ id }: Movement): void {
    ended.push(id);
    const oldest = ended.length > keptMovements ? ended.shift() : undefined;
    if (oldest !== undefined) byId.delete(oldest);
  }

  return {
    begin(
      plan: Pick<Movement, 'kind' | 'amount' | 'chain'> & Partial<Pick<Movement, 'walletId' | 'from' | 'to'>>,
      at: { readonly now: number },
    ): Movement {
      count += 1;
      const { kind, amount, chain, walletId = null } = plan;
      const id = `${kind}_${random.hex(`movement:${count}`, { digits: 16 })}`;
      const createdAt = new Date(at.now).toISOString();
      const from = plan.from ?? toAddress(random, { chain, of: `${id}:from` });
      const to = plan.to ?? toAddress(random, { chain, of: `${id}:to` });
      const times = { createdAt, updatedAt: createdAt };
      return keep({ id, kind, state: 'pending', amount, chain, walletId, from, to, reason: null, ...times });
    },

    /** Ends a movement, well unless there is a reason. */
    end(movement: Movement, how: { readonly reason: Movement['reason']; readonly now: number }): Movement {
      const state = how.reason === null ? WELL[movement.kind] : 'failed';
      const updatedAt = new Date(how.now).toISOString();
      const result = keep({ ...movement, state, reason: how.reason, updatedAt });
      // A redemption that the bank sends back ends twice.
      if (movement.state === 'pending') countEnded(movement);
      return result;
    },

    find: (id: string): Movement | undefined => byId.get(id),

    /** @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` */
    get(id: string): Movement {
      const movement = byId.get(id);
      if (movement !== undefined) return movement;
      throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'There is no movement of this id. Begin it first.');
    },

    /** Newest first. */
    list: (): Movement[] => [...byId.values()].reverse(),

    save: (): MovementsState => ({ count, movements: [...byId.values()] }),
    load(state: MovementsState | undefined): void {
      ended = new Fifo();
      byId = new Map();
      count = state?.count ?? 0;
      for (const movement of state?.movements ?? []) {
        keep(movement);
        if (movement.state !== 'pending') countEnded(movement);
      }
    },
  };
}

const WELL = { accept: 'confirmed', transfer: 'settled', redeem: 'completed' } as const;
