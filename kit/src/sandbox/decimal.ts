/** Decimal amounts as text: exact arithmetic on bigints, because a float loses money. */

/** Up to 30 digits, then perhaps a point and up to 18 more; no sign, no exponent, no leading zero. */
const DECIMAL = /^(?:0|[1-9]\d{0,29})(?:\.\d{1,18})?$/;

/** Whether the text is a decimal amount of zero or more, such as `0`, `10` or `10.50`. */
export function isDecimal(text: string): boolean {
  return DECIMAL.test(text);
}

/** Whether the text is a decimal amount of more than zero. */
export function isPositiveDecimal(text: string): boolean {
  return DECIMAL.test(text) && /[1-9]/.test(text);
}

/** The sum, with as many decimals as the longer of the two: `0.5` and `1.25` make `1.75`. */
export function addDecimals(left: string, right: string): string {
  const scale = Math.max(scaleOf(left), scaleOf(right));
  return format(toUnits(left, scale) + toUnits(right, scale), scale);
}

/**
 * The difference, with as many decimals as the longer of the two.
 *
 * @throws {RangeError} when `right` is the larger: the sandbox knows no debts.
 */
export function subtractDecimals(left: string, right: string): string {
  const scale = Math.max(scaleOf(left), scaleOf(right));
  const units = toUnits(left, scale) - toUnits(right, scale);
  if (units < 0n) throw new RangeError('An amount cannot go below zero. Compare the two before.');
  return format(units, scale);
}

/** Negative, zero or positive, as `left` is less than, equal to or more than `right`. */
export function compareDecimals(left: string, right: string): number {
  const scale = Math.max(scaleOf(left), scaleOf(right));
  const difference = toUnits(left, scale) - toUnits(right, scale);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

function scaleOf(text: string): number {
  const point = text.indexOf('.');
  return point === -1 ? 0 : text.length - point - 1;
}

function toUnits(text: string, scale: number): bigint {
  return BigInt(text.replace('.', '') + '0'.repeat(scale - scaleOf(text)));
}

function format(units: bigint, scale: number): string {
  if (scale === 0) return units.toString();
  const digits = units.toString().padStart(scale + 1, '0');
  return `${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}
