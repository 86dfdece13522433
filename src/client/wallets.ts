import { ResponseError, type ResponseFacts } from './errors.js';
import type { Send } from './http.js';

/** The chains of the service. */
export const CHAINS = ['tempo', 'solana', 'base', 'arc'] as const;
/** A chain of the service. Wallets exist on fewer chains, see {@link WalletChain}. */
export type Chain = (typeof CHAINS)[number];

/** The chains on which wallets are created. */
export const WALLET_CHAINS = ['tempo', 'solana', 'base'] as const satisfies readonly Chain[];
/** A chain on which wallets are created. */
export type WalletChain = (typeof WALLET_CHAINS)[number];

/** Spending limits, enforced on every send. Strings as sent: their unit and format are not specified. */
export interface Limits {
  readonly perTx: string;
  readonly daily: string;
}

/** A wallet of the service. Further fields are kept on the object. */
export interface Wallet {
  readonly id: string;
  readonly agentId: string;
  /** As sent: on some chains the case of an address matters. */
  readonly address: string;
  /** One of {@link WALLET_CHAINS}, or a chain that is newer than this release. */
  readonly chain: WalletChain | (string & {});
  readonly balance: string;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/** The input of `create`. */
export interface CreateWallet {
  readonly agentId: string;
  readonly label?: string | undefined;
  readonly chain: WalletChain;
  readonly limits: Limits;
  readonly allowlist: readonly string[];
}

/**
 * A change of `limits`, `allowlist` or both. The service does not specify whether an omitted field stays, nor whether the
 * allowlist replaces or extends: send both, and rely on the wallet in the answer.
 */
export interface UpdateLimits {
  readonly limits?: Limits | undefined;
  readonly allowlist?: readonly string[] | undefined;
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** The calls for wallets. Both reject with a `ClientError` or the signal's reason. */
export interface Wallets {
  /** Creates a wallet. Retried only if it certainly did not arrive, because the service accepts no idempotency key. */
  create(input: CreateWallet, options?: CallOptions): Promise<Wallet>;
  /** Changes a wallet's limits or allowlist, and resolves to the changed wallet. */
  updateLimits(id: string, input: UpdateLimits, options?: CallOptions): Promise<Wallet>;
}

export function createWallets(send: Send): Wallets {
  return {
    async create(input, { signal } = {}) {
      const { value, ...facts } = await send({ method: 'POST', path: '/v1/wallets', input, signal });
      return toWallet(value, facts);
    },
    async updateLimits(id, input, { signal } = {}) {
      const path = `/v1/wallets/${encodeURIComponent(id)}/limits`;
      const { value, ...facts } = await send({ method: 'PATCH', path, input, signal });
      return toWallet(value, facts);
    },
  };
}

/** Checks the fields that the service specifies. The wallet is the value itself, including further fields. */
function toWallet(value: unknown, facts: ResponseFacts): Wallet {
  const { id, agentId, address, chain, balance, limits, allowlist } = Object(value);
  const { perTx, daily } = Object(limits);
  const texts = { id, agentId, address, chain, balance, 'limits.perTx': perTx, 'limits.daily': daily };
  const fields = Object.entries(texts).flatMap(([name, text]) => (typeof text === 'string' ? [] : [name]));
  if (!Array.isArray(allowlist)) fields.push('allowlist');
  if (fields.length === 0) return value as Wallet;
  throw new ResponseError(
    `The service carried out ${facts.method} ${facts.url}, but its answer is not a wallet. These fields are missing or wrong: ${fields.join(', ')}. \`answer\` of this error contains the answer.`,
    { ...facts, fields },
  );
}
