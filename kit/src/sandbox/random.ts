/**
 * Chance from a seed: what comes up depends on the seed and on what is asked about, never on the order of asking.
 *
 * So the fate of an attempt is the same in every run, however the answers of real endpoints interleave.
 */

/** Numbers and digits that the seed and a key determine. */
export interface Random {
  /** A number from 0 up to 1. */
  number(key: string): number;
  /** Hexadecimal digits, as many as asked for. */
  hex(key: string, options: { readonly digits: number }): string;
}

/** The chance that belongs to a seed. */
export function createRandom(seed: number): Random {
  return {
    number: (key) => (hash(`${seed}:${key}`)[0] >>> 0) / 2 ** 32,
    hex: (key, { digits }) => {
      let text = '';
      for (let block = 0; text.length < digits; block++) {
        for (const word of hash(`${seed}:${key}:${block}`))
          text += (word >>> 0).toString(16).padStart(8, '0');
      }
      return text.slice(0, digits);
    },
  };
}

/** Two 32-bit words with separate state, so that 64 bits keep a few hundred thousand ids apart. */
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
