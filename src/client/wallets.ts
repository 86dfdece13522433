import { ResponseError, type ResponseFacts } from './errors.js';
import type { Send } from './http.js';

/** The chains that the service supports. */
export const CHAINS = ['tempo', 'solana', 'base', 'arc'] as const;
/** A chain that the service supports. Not every chain supports wallets; see {@link WalletChain}. */
export type Chain = (typeof CHAINS)[number];

/** The chains on which you can create wallets. */
export const WALLET_CHAINS = ['tempo', 'solana', 'base'] as const satisfies readonly Chain[];
/** A chain on which you can create wallets. */
export type WalletChain = (typeof WALLET_CHAINS)[number];

/** Spending limits, which the service enforces whenever the wallet sends money. Their unit and format aren't specified. */
export interface Limits {
  readonly perTx: string;
  readonly daily: string;
}

/** A wallet at the service. The object keeps any additional fields. */
export interface Wallet {
  readonly id: string;
  readonly agentId: string;
  /** The address as the service sent it. On some chains, addresses are case-sensitive. */
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
 * Changes to `limits`, `allowlist` or both. To be safe, send both fields, and check the wallet in the response: the service
 * doesn't specify whether a field that you omit keeps its value, or whether a new allowlist replaces or extends the old one.
 */
export interface UpdateLimits {
  readonly limits?: Limits | undefined;
  readonly allowlist?: readonly string[] | undefined;
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** The calls for wallets. Each call rejects with a `ClientError` or, if you abort the call, with the signal's reason. */
export interface Wallets {
  /** Creates a wallet. A request that may have arrived isn't retried, because the service accepts no idempotency key. */
  create(input: CreateWallet, options?: CallOptions): Promise<Wallet>;
  /** Changes the limits or the allowlist of a wallet, and resolves to the updated wallet. */
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

function toWallet(value: unknown, facts: ResponseFacts): Wallet {
  const { id, agentId, address, chain, balance, limits, allowlist } = Object(value);
  const { perTx, daily } = Object(limits);
  const texts = { id, agentId, address, chain, balance, 'limits.perTx': perTx, 'limits.daily': daily };
  const fields = Object.entries(texts).flatMap(([name, text]) => (typeof text === 'string' ? [] : [name]));
  if (!Array.isArray(allowlist)) fields.push('allowlist');
  if (fields.length === 0) return value as Wallet;
  throw new ResponseError(
    `The service carried out ${facts.method} ${facts.url}, but its response is not a wallet. These fields are missing or invalid: ${fields.join(', ')}. The response is in \`answer\` of this error.`,
    { ...facts, fields },
  );
}
