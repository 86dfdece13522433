/** Random choices that a seed, an index and a stream name give again. */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

export class Draw {
  readonly #generator;

  /** @param stream - streams of one index are independent, so that one mutation can be left out without changing the others. */
  constructor(seed: number, index: number, stream: number) {
    this.#generator = xoroshiro128plus(mixed(mixed(mixed(seed) ^ index) ^ stream));
  }

  /** A whole number from `least` to `most`, both included. */
  int(least: number, most: number): number {
    return uniformInt(this.#generator, least, most);
  }

  oneIn(count: number): boolean {
    return this.int(1, count) === 1;
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.int(0, values.length - 1)] as Value;
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.int(0, 255));
  }

  /** A text that occurs nowhere by accident. */
  marker(): string {
    return `mark${Array.from({ length: 4 }, () => this.int(0, 0xffffff).toString(36).padStart(5, '0')).join('')}`;
  }
}

/** Changes half of the bits of a 32-bit number when one of them changes (the finalizer of MurmurHash3). */
function mixed(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) + 0x9e3779b9;
}
