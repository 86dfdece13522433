/** Wallets: who may send how much to whom, judged on every send. */
import * as z from 'zod/mini';
import { toAddress, WALLET_CHAINS, type WalletChain } from './chains.js';
import { addDecimals, compareDecimals, subtractDecimals } from './decimal.js';
import { decimal, oneOf, text, texts } from './fields.js';
import { check, SandboxError, type SandboxErrorCode } from './problem.js';
import type { Random } from './random.js';

/** How much a wallet may send; decimal text, in USDC. */
export interface WalletLimits {
  readonly perTx: string;
  /** For one day in UTC, by the sandbox's clock. */
  readonly daily: string;
}

/** A wallet, as `service.md` lists its fields. */
export interface Wallet {
  readonly id: string;
  readonly agentId: string;
  readonly address: string;
  readonly chain: WalletChain;
  readonly balance: string;
  readonly limits: WalletLimits;
  readonly allowlist: readonly string[];
}

/** What a wallet is created from. */
export interface WalletInput {
  readonly agentId: string;
  readonly label?: string | undefined;
  readonly chain: WalletChain;
  readonly limits: WalletLimits;
  /** Where the wallet may send to, compared exactly. @default [], which allows no target */
  readonly allowlist?: readonly string[] | undefined;
}

/** A change of limits: what is left out stays, an allowlist replaces the one before. */
export interface LimitsInput {
  readonly limits?: { readonly [Limit in keyof WalletLimits]?: string | undefined } | undefined;
  readonly allowlist?: readonly string[] | undefined;
}

/** A wallet, and what of it the service's answers do not show. */
export interface Account extends Wallet {
  readonly label: string | null;
  /** The day in UTC that `spentToday` belongs to. */
  readonly day: string;
  readonly spentToday: string;
}

/** An amount that leaves a wallet. */
interface Spending {
  readonly amount: string;
  readonly to: string;
  readonly now: number;
}

/** What {@link createWallets} keeps in a state file. */
export interface WalletsState {
  readonly accounts: readonly Account[];
}

const BODY = 'must be a JSON object';
const limits = z.object({ perTx: decimal, daily: decimal }, 'must hold perTx and daily');
const walletInput = z.object(
  {
    agentId: text,
    label: z.optional(text),
    chain: oneOf(WALLET_CHAINS),
    limits,
    allowlist: z.optional(texts),
  },
  BODY,
);
const limitsInput = z.object({ limits: z.optional(z.partial(limits)), allowlist: z.optional(texts) }, BODY);

export type Wallets = ReturnType<typeof createWallets>;

/** No wallets yet; each new one starts with `initialBalance`. */
export function createWallets(options: { readonly random: Random; readonly initialBalance: string }) {
  const { random, initialBalance } = options;
  let accounts = new Map<string, Account>();

  function get(id: string): Account {
    const account = accounts.get(id);
    if (account !== undefined) return account;
    throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'There is no wallet of this id. Create it first.');
  }

  function put(account: Account): Account {
    accounts.set(account.id, account);
    return account;
  }

  return {
    get,
    list: (): readonly Account[] => [...accounts.values()],

    /** @throws {SandboxError} `ERR_SANDBOX_INPUT` */
    create(input: WalletInput): Account {
      const { agentId, label = null, chain, limits, allowlist = [] } = check(walletInput, input);
      const number = accounts.size + 1;
      const id = `wal_${random.hex(`wallet:${number}`, { digits: 16 })}`;
      const address = toAddress(random, { chain, of: id });
      const spent = { day: '', spentToday: '0' };
      return put({
        id,
        agentId,
        address,
        chain,
        balance: initialBalance,
        limits,
        allowlist,
        label,
        ...spent,
      });
    },

    /** @throws {SandboxError} `ERR_SANDBOX_INPUT`, `ERR_SANDBOX_NOT_FOUND` */
    updateLimits(id: string, input: LimitsInput): Account {
      const account = get(id);
      const change = check(limitsInput, input);
      return put({
        ...account,
        limits: {
          perTx: change.limits?.perTx ?? account.limits.perTx,
          daily: change.limits?.daily ?? account.limits.daily,
        },
        allowlist: change.allowlist ?? account.allowlist,
      });
    },

    /**
     * Takes an amount out, or refuses and changes nothing. It judges and takes in one synchronous step, so
     * that concurrent sends cannot together pass a limit.
     */
    spend(id: string, { amount, to, now }: Spending): Account {
      const account = get(id);
      const day = toDay(now);
      const spentToday = addDecimals(account.day === day ? account.spentToday : '0', amount);
      if (!account.allowlist.includes(to)) throw refused('ERR_SANDBOX_NOT_ALLOWED', 'to');
      if (compareDecimals(amount, account.limits.perTx) > 0)
        throw refused('ERR_SANDBOX_OVER_PER_TX', 'amount');
      if (compareDecimals(spentToday, account.limits.daily) > 0)
        throw refused('ERR_SANDBOX_OVER_DAILY', 'amount');
      if (compareDecimals(amount, account.balance) > 0) throw refused('ERR_SANDBOX_OVER_BALANCE', 'amount');
      return put({ ...account, balance: subtractDecimals(account.balance, amount), day, spentToday });
    },

    /** Gives back what a failed transfer took, and what it used up of its day. */
    refund(id: string, { amount, takenAt }: { readonly amount: string; readonly takenAt: number }): void {
      const account = get(id);
      const sameDay = account.day === toDay(takenAt);
      put({
        ...account,
        balance: addDecimals(account.balance, amount),
        spentToday: sameDay ? subtractDecimals(account.spentToday, amount) : account.spentToday,
      });
    },

    credit(id: string, { amount }: { readonly amount: string }): void {
      const account = get(id);
      put({ ...account, balance: addDecimals(account.balance, amount) });
    },

    save: (): WalletsState => ({ accounts: [...accounts.values()] }),
    load(state: WalletsState | undefined): void {
      accounts = new Map(state?.accounts.map((account) => [account.id, account]));
    },
  };
}

/** What the service's answers show of an account. */
export function toWallet({ id, agentId, address, chain, balance, limits, allowlist }: Account): Wallet {
  return { id, agentId, address, chain, balance, limits, allowlist };
}

const REFUSALS = {
  ERR_SANDBOX_NOT_ALLOWED: 'is not on the allowlist of the wallet',
  ERR_SANDBOX_OVER_PER_TX: 'is more than limits.perTx of the wallet',
  ERR_SANDBOX_OVER_DAILY: 'is more than what is left of limits.daily of the wallet today',
  ERR_SANDBOX_OVER_BALANCE: 'is more than the balance of the wallet',
} as const satisfies Partial<Record<SandboxErrorCode, string>>;

function refused(code: keyof typeof REFUSALS, field: 'amount' | 'to'): SandboxError {
  const detail = REFUSALS[code];
  return new SandboxError(code, `Nothing was sent: ${field} ${detail}.`, { errors: [{ field, detail }] });
}

function toDay(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}
