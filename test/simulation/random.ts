/** A source of random numbers that a seed decides. */
export interface Random {
  /** A number of at least 0 and less than 1. */
  number(): number;
  /** An integer from `min` to `max`, both included. */
  integer(min: number, max: number): number;
  /** Whether something of this probability happens; it takes no number if that is 0. */
  chance(probability: number): boolean;
  pick<Value>(list: readonly [Value, ...Value[]]): Value;
}

/** @param seeds - integers; each list of them gives another sequence. */
export function createRandom(...seeds: readonly number[]): Random {
  let state = 0x9e3779b9;
  for (const seed of seeds) state = mix(state ^ mix(seed | 0)) | 0;

  // Mulberry32: small, and good enough to choose an order.
  function number(): number {
    state = (state + 0x6d2b79f5) | 0;
    return (mix(state) >>> 0) / 2 ** 32;
  }

  const integer = (min: number, max: number) => min + Math.floor(number() * (max - min + 1));
  return {
    number,
    integer,
    chance: (probability) => probability > 0 && number() < probability,
    pick: (list) => list[integer(0, list.length - 1)] ?? list[0],
  };
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 15), value | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return mixed ^ (mixed >>> 14);
}
