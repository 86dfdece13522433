import type { Chain } from 'stablehooks/client';

export type Random = ReturnType<typeof createRandom>;

/** Each value depends only on the seed and the key, and not on the order in which endpoints respond. */
export function createRandom(seed: number) {
  function hex(key: string, digits: number): string {
    let text = '';
    for (let block = 0; text.length < digits; block++) {
      for (const word of hash(`${seed}:${key}:${block}`)) text += (word >>> 0).toString(16).padStart(8, '0');
    }
    return text.slice(0, digits);
  }

  function base58(key: string, digits: number): string {
    const bytes = hex(key, digits * 2);
    let text = '';
    for (let at = 0; at < bytes.length; at += 2) {
      text += BASE58[Number.parseInt(bytes.slice(at, at + 2), 16) % 58];
    }
    return text;
  }

  return {
    /** At least 0 and less than 1. */
    number: (key: string) => (hash(`${seed}:${key}`)[0] >>> 0) / 2 ** 32,
    hex,
    address: (chain: Chain, key: string) =>
      chain === 'solana' ? base58(`address:${key}`, 44) : `0x${hex(`address:${key}`, 40)}`,
    transaction: (chain: Chain, key: string) =>
      chain === 'solana' ? base58(`transaction:${key}`, 88) : `0x${hex(`transaction:${key}`, 64)}`,
  };
}

const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/** 64 bits are enough to keep a few hundred thousand ids distinct. */
function hash(text: string): readonly [number, number] {
  let left = 0xdeadbeef;
  let right = 0x41c6ce57;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    left = Math.imul(left ^ code, 2654435761);
    right = Math.imul(right ^ code, 1597334677);
  }
  left = Math.imul(left ^ (left >>> 16), 2246822507) ^ Math.imul(right ^ (right >>> 13), 3266489909);
  right = Math.imul(right ^ (right >>> 16), 2246822507) ^ Math.imul(left ^ (left >>> 13), 3266489909);
  return [left, right];
}
