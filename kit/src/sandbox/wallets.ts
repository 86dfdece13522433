import { type Limits, WALLET_CHAINS, type Wallet, type WalletChain } from 'stablehooks/client';
import * as z from 'zod/mini';
import type { Random } from './random.js';
import {
  check,
  closedObject,
  decimal,
  nonEmptyString,
  nonEmptyStrings,
  oneOf,
  SandboxError,
  type SandboxErrorCode,
} from './validation.js';

/** The properties of a new wallet. */
export interface WalletInput {
  readonly agentId: string;
  readonly label?: string | undefined;
  readonly chain: WalletChain;
  /** The limits in USDC. `daily` limits what the wallet can send in one UTC day, by the sandbox's clock. */
  readonly limits: Limits;
  /** The only targets that the wallet can send to, compared exactly. @default [], which allows no target */
  readonly allowlist?: readonly string[] | undefined;
}

/** The limits to change. Omitted fields stay as they are. An allowlist replaces the previous allowlist. */
export interface LimitsInput {
  readonly limits?: { readonly [Limit in keyof Limits]?: string | undefined } | undefined;
  readonly allowlist?: readonly string[] | undefined;
}

/** A wallet, including data that the service does not show. */
export interface Account extends Wallet {
  readonly chain: WalletChain;
  readonly label: string | null;
  /** The UTC day to which `spentToday` applies. */
  readonly day: string;
  readonly spentToday: string;
}

interface Spending {
  readonly amount: string;
  readonly to: string;
  readonly now: number;
}

const limits = closedObject({ perTx: decimal, daily: decimal });
const walletInput = closedObject({
  agentId: nonEmptyString,
  label: z.optional(nonEmptyString),
  chain: oneOf(WALLET_CHAINS),
  limits,
  allowlist: z.optional(nonEmptyStrings),
});
const limitsInput = closedObject({
  limits: z.optional(z.partial(limits)),
  allowlist: z.optional(nonEmptyStrings),
});

export type WalletStore = ReturnType<typeof createWalletStore>;

export function createWalletStore(random: Random, initialBalance: string) {
  const accounts = new Map<string, Account>();

  function get(id: string): Account {
    const account = accounts.get(id);
    if (account !== undefined) return account;
    throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'This wallet does not exist. Create it first.');
  }

  function put(account: Account): Account {
    accounts.set(account.id, account);
    return account;
  }

  return {
    get,
    list: (): readonly Account[] => [...accounts.values()],

    create(input: WalletInput): Account {
      const { agentId, label = null, chain, limits, allowlist = [] } = check(walletInput, input);
      const number = accounts.size + 1;
      const id = `wal_${random.hex(`wallet:${number}`, 16)}`;
      const address = random.address(chain, id);
      const wallet = { id, agentId, address, chain, balance: initialBalance, limits, allowlist };
      return put({ ...wallet, label, day: '', spentToday: '0' });
    },

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

    /** All checks are synchronous, so concurrent sends cannot exceed a limit. */
    spend(id: string, { amount, to, now }: Spending): Account {
      const account = get(id);
      const day = toDay(now);
      const spentToday = addDecimals(account.day === day ? account.spentToday : '0', amount);
      if (!account.allowlist.includes(to)) throw refused('ERR_SANDBOX_NOT_ALLOWED', 'to');
      if (isMore(amount, account.limits.perTx)) throw refused('ERR_SANDBOX_OVER_PER_TX', 'amount');
      if (isMore(spentToday, account.limits.daily)) throw refused('ERR_SANDBOX_OVER_DAILY', 'amount');
      if (isMore(amount, account.balance)) throw refused('ERR_SANDBOX_OVER_BALANCE', 'amount');
      return put({ ...account, balance: subtractDecimals(account.balance, amount), day, spentToday });
    },

    /** On the same day, the amount no longer counts towards the daily limit. */
    refund(id: string, amount: string, takenAt: number): void {
      const account = get(id);
      const sameDay = account.day === toDay(takenAt);
      put({
        ...account,
        balance: addDecimals(account.balance, amount),
        spentToday: sameDay ? subtractDecimals(account.spentToday, amount) : account.spentToday,
      });
    },

    credit(id: string, amount: string): void {
      const account = get(id);
      put({ ...account, balance: addDecimals(account.balance, amount) });
    },

    reset: (): void => accounts.clear(),
  };
}

export function toWallet({ id, agentId, address, chain, balance, limits, allowlist }: Account): Wallet {
  return { id, agentId, address, chain, balance, limits, allowlist };
}

const REFUSALS = {
  ERR_SANDBOX_NOT_ALLOWED: "is not on the wallet's allowlist",
  ERR_SANDBOX_OVER_PER_TX: "exceeds the wallet's limits.perTx",
  ERR_SANDBOX_OVER_DAILY: "exceeds what is left of the wallet's limits.daily today",
  ERR_SANDBOX_OVER_BALANCE: "exceeds the wallet's balance",
} as const satisfies Partial<Record<SandboxErrorCode, string>>;

function refused(code: keyof typeof REFUSALS, field: 'amount' | 'to'): SandboxError {
  const detail = REFUSALS[code];
  return new SandboxError(code, `Nothing was sent: ${field} ${detail}.`, { errors: [{ field, detail }] });
}

function toDay(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}

// Amounts are strings and are calculated as bigints, because numbers would lose precision.

/** The result has as many decimal places as the more precise operand: `0.5` plus `1.25` is `1.75`. */
function addDecimals(left: string, right: string): string {
  const scale = Math.max(scaleOf(left), scaleOf(right));
  return formatUnits(toUnits(left, scale) + toUnits(right, scale), scale);
}

/** @throws {RangeError} when `right` is larger, because amounts cannot be negative. */
function subtractDecimals(left: string, right: string): string {
  const scale = Math.max(scaleOf(left), scaleOf(right));
  const units = toUnits(left, scale) - toUnits(right, scale);
  if (units < 0n) throw new RangeError('An amount cannot be negative. Compare the amounts first.');
  return formatUnits(units, scale);
}

function isMore(left: string, right: string): boolean {
  const scale = Math.max(scaleOf(left), scaleOf(right));
  return toUnits(left, scale) > toUnits(right, scale);
}

function scaleOf(decimal: string): number {
  const point = decimal.indexOf('.');
  return point === -1 ? 0 : decimal.length - point - 1;
}

function toUnits(decimal: string, scale: number): bigint {
  return BigInt(decimal.replace('.', '') + '0'.repeat(scale - scaleOf(decimal)));
}

function formatUnits(units: bigint, scale: number): string {
  if (scale === 0) return units.toString();
  const digits = units.toString().padStart(scale + 1, '0');
  return `${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}
