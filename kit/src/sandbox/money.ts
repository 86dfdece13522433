/** Money in motion: a movement begins, takes its time, ends, and fires its event; what is taken is given back. */
import type { Clock } from './clock.js';
import type { SandboxEvent } from './event-log.js';
import type { Feed } from './feed.js';
import { checkMovement } from './movement-inputs.js';
import type { Movement, Movements } from './movements.js';
import { toEventType, toPayload } from './payloads.js';
import { SandboxError } from './problem.js';
import type { Random } from './random.js';
import type { SandboxOperations } from './sandbox.js';
import type { OutcomeCounts } from './tally.js';
import type { Wallets } from './wallets.js';

interface Parts {
  readonly clock: Clock;
  readonly random: Random;
  readonly wallets: Wallets;
  readonly movements: Movements;
  readonly feed: Feed;
  readonly tally: OutcomeCounts;
  /** Logs and delivers an event. */
  readonly fire: (type: string, payload: Readonly<Record<string, unknown>>) => SandboxEvent;
}

/** An end that is to come: of a pending movement, or of a completed redemption that the bank sends back. */
interface Ending {
  readonly movementId: string;
  readonly at: number;
  readonly reason: Movement['reason'];
  readonly returnsAfterMs?: number | undefined;
}

/** What {@link createMoney} keeps in a state file. */
export interface MoneyState {
  readonly endings: readonly Ending[];
}

export function createMoney(parts: Parts, { movementMs }: { readonly movementMs: number }) {
  const { clock, random, wallets, movements, feed, tally, fire } = parts;
  let endings = new Set<Ending>();

  function run(movement: Movement, ending: Pick<Ending, 'reason' | 'returnsAfterMs'>): Movement {
    feed.publish('movement.begun', movement);
    plan({ ...ending, movementId: movement.id, at: clock.now() + movementMs });
    return movements.get(movement.id);
  }

  function plan(ending: Ending): void {
    endings.add(ending);
    const pending = movements.get(ending.movementId).state === 'pending';
    if (pending) tally.begin();
    const conclude = () => {
      endings.delete(ending);
      end(ending);
      if (pending) tally.end();
    };
    const waitMs = ending.at - clock.now();
    if (waitMs <= 0) conclude();
    else clock.after(waitMs, conclude);
  }

  function end({ movementId, reason, returnsAfterMs }: Ending): void {
    const begun = movements.find(movementId);
    // Sent back before its time, or forgotten by the bound on movements before the bank sends it back.
    if (begun === undefined || begun.state === 'failed') return;
    const movement = movements.end(begun, { reason, now: clock.now() });
    settle(movement);
    feed.publish('movement.ended', movement);
    fire(toEventType(movement), toPayload(random, movement));
    if (returnsAfterMs !== undefined && reason === null) {
      plan({ movementId, reason: 'bank', at: clock.now() + returnsAfterMs });
    }
  }

  function settle({ kind, state, walletId, amount, createdAt }: Movement): void {
    if (walletId === null) return;
    if (kind === 'accept') wallets.credit(walletId, { amount });
    if (state === 'failed') wallets.refund(walletId, { amount, takenAt: Date.parse(createdAt) });
  }

  const operations: Pick<SandboxOperations, 'accept' | 'transfer' | 'send' | 'redeem' | 'returnRedemption'> =
    {
      accept: (input = {}) => {
        const { amount, chain, walletId } = checkMovement('accept', input);
        const wallet = walletId === undefined ? undefined : wallets.get(walletId);
        if (wallet !== undefined && chain !== undefined && chain !== wallet.chain) {
          const errors = [{ field: 'chain', detail: 'is not the chain of the wallet' }];
          throw new SandboxError(
            'ERR_SANDBOX_INPUT',
            'Nothing was accepted: leave chain out with walletId.',
            { errors },
          );
        }
        const into = wallet === undefined ? {} : { walletId: wallet.id, to: wallet.address };
        const plan = { kind: 'accept', amount, chain: wallet?.chain ?? chain ?? 'base', ...into } as const;
        return run(movements.begin(plan, { now: clock.now() }), { reason: null });
      },

      transfer: (input = {}) => {
        const { failsWith = null, to, ...rest } = checkMovement('transfer', input);
        const plan = { kind: 'transfer', ...rest, ...(to === undefined ? {} : { to }) } as const;
        return run(movements.begin(plan, { now: clock.now() }), { reason: failsWith });
      },

      send: (walletId, input) => {
        const { failsWith = null, amount, to, chain } = checkMovement('send', input);
        const now = clock.now();
        const wallet = wallets.spend(walletId, { amount, to, now });
        const plan = {
          kind: 'transfer',
          amount,
          chain: chain ?? wallet.chain,
          walletId,
          from: wallet.address,
          to,
        } as const;
        return run(movements.begin(plan, { now }), { reason: failsWith });
      },

      redeem: (input = {}) => {
        const { failsWith = null, amount, bank, returnsAfterMs } = checkMovement('redeem', input);
        const plan = { kind: 'redeem', amount, chain: 'base', to: bank } as const;
        return run(movements.begin(plan, { now: clock.now() }), { reason: failsWith, returnsAfterMs });
      },

      returnRedemption: (id) => {
        const movement = movements.get(id);
        if (movement.state !== 'completed') {
          throw new SandboxError(
            'ERR_SANDBOX_STATE',
            'Only a completed redemption can be sent back by the bank.',
          );
        }
        end({ movementId: id, reason: 'bank', at: clock.now() });
        return movements.get(id);
      },
    };

  return {
    operations,
    save: (): MoneyState => ({ endings: [...endings] }),
    load(state: MoneyState | undefined): void {
      endings = new Set();
      for (const ending of state?.endings ?? []) {
        if (movements.find(ending.movementId) !== undefined) plan(ending);
      }
    },
  };
}
