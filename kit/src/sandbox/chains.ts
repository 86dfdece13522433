/** The chains of `service.md`, and what an address and a transaction look like on each. */
import type { Random } from './random.js';

/** The chains that the service moves money on. */
export const CHAINS = ['tempo', 'solana', 'base', 'arc'] as const;
export type Chain = (typeof CHAINS)[number];

/** The chains that a wallet can be created on. */
export const WALLET_CHAINS = ['tempo', 'solana', 'base'] as const;
export type WalletChain = (typeof WALLET_CHAINS)[number];

/** Something on a chain, from the seed: the same `of` is always the same address. */
export interface OnChain {
  readonly chain: Chain;
  readonly of: string;
}

export function toAddress(random: Random, { chain, of }: OnChain): string {
  if (chain === 'solana') return toBase58(random, { of: `address:${of}`, digits: 44 });
  return `0x${random.hex(`address:${of}`, { digits: 40 })}`;
}

export function toTransactionId(random: Random, { chain, of }: OnChain): string {
  if (chain === 'solana') return toBase58(random, { of: `transaction:${of}`, digits: 88 });
  return `0x${random.hex(`transaction:${of}`, { digits: 64 })}`;
}

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

function toBase58(random: Random, { of, digits }: { readonly of: string; readonly digits: number }): string {
  const hex = random.hex(of, { digits: digits * 2 });
  let text = '';
  for (let at = 0; at < hex.length; at += 2) text += BASE58[Number.parseInt(hex.slice(at, at + 2), 16) % 58];
  return text;
}
