/** Longer strings are not treated as amounts, because the time to parse them grows with the square of their length. */
const MAX_LENGTH = 1_000;

const DECIMAL = /^([+-]?)(\d+)(?:\.(\d+))?$/;

/**
 * Returns whether two decimal amounts are equal, no matter how they are written: `1.50`, `+1.500` and `01.5` are equal.
 *
 * @returns `false` if either value is not an amount as {@link normalizeAmount} defines it.
 *
 * @example
 * ```ts
 * sameAmount('10.50', '10.5'); // true
 * sameAmount(undefined, undefined); // false
 * ```
 */
export function sameAmount(a: unknown, b: unknown): boolean {
  const normal = normalizeAmount(a);
  return normal !== undefined && normal === normalizeAmount(b);
}

/**
 * Returns the shortest form of a decimal amount. Equal amounts become equal strings: `1.50`, `+1.500` and `01.5` become
 * `1.5`, and `-0` becomes `0`. To compare two amounts, use {@link sameAmount} instead: this function returns `undefined`
 * for everything that isn't an amount, so two invalid values would look equal.
 *
 * @returns `undefined` if `amount` is not a string, is empty, is longer than 1,000 characters, or contains an exponent
 * (`1e3`), separators (`1,000`) or white space.
 *
 * @example
 * ```ts
 * normalizeAmount('10.50') === normalizeAmount('10.5'); // true
 * ```
 */
export function normalizeAmount(amount: unknown): string | undefined {
  const parts = readAmount(amount);
  return parts && writeAmount(parts);
}

export function addAmounts(a: string, b: string): string | undefined {
  const [left, right] = [readAmount(a), readAmount(b)];
  if (left === undefined || right === undefined) return undefined;
  const scale = Math.max(left.scale, right.scale);
  return writeAmount({ units: toScale(left, scale) + toScale(right, scale), scale });
}

/** `units` divided by ten to the power of `scale`. */
interface Amount {
  readonly units: bigint;
  readonly scale: number;
}

function readAmount(text: unknown): Amount | undefined {
  if (typeof text !== 'string' || text.length > MAX_LENGTH) return undefined;
  const [, sign, whole, fraction = ''] = DECIMAL.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const units = BigInt(whole + fraction);
  return { units: sign === '-' ? -units : units, scale: fraction.length };
}

function toScale({ units, scale }: Amount, wanted: number): bigint {
  return units * 10n ** BigInt(wanted - scale);
}

function writeAmount({ units, scale }: Amount): string {
  const digits = String(units < 0n ? -units : units).padStart(scale + 1, '0');
  const whole = digits.slice(0, digits.length - scale);
  const fraction = digits.slice(digits.length - scale).replace(/0+$/, '');
  return `${units < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}
