/** How a signature is written: 32 bytes as hex, base64 or base64url, decoded strictly. */
import { toHex } from './bytes.js';

/** How the 32 bytes of a signature are written. */
export type SignatureEncoding = (typeof SIGNATURE_ENCODINGS)[number];

/** Every {@link SignatureEncoding}. */
export const SIGNATURE_ENCODINGS = ['hex', 'base64', 'base64url'] as const;

/** How a signature is written, as far as it is known: `service.md` does not specify it. */
export interface SignatureFormat {
  /**
   * Pins the encoding; any other is then malformed.
   *
   * @default any: 64 hex digits, or 44 (padded) or 43 characters of base64 or base64url, which cannot collide
   */
  readonly encoding?: SignatureEncoding | undefined;
  /** Text before the digits, such as `sha256=`; a signature without it is malformed. @default '' */
  readonly prefix?: string | undefined;
}

/** How many digits 32 bytes take, and what each digit's character code means. */
interface Alphabet {
  readonly bitsPerDigit: 4 | 6;
  readonly length: number;
  readonly values: Uint8Array;
}

/** Beyond every digit's value, whatever the alphabet. */
const NO_DIGIT = 64;

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const ALPHABETS: Readonly<Record<SignatureEncoding, Alphabet>> = {
  hex: { bitsPerDigit: 4, length: 64, values: valuesOf('0123456789abcdef', 'ABCDEF') },
  base64: { bitsPerDigit: 6, length: 43, values: valuesOf(`${LETTERS}0123456789+/`) },
  base64url: { bitsPerDigit: 6, length: 43, values: valuesOf(`${LETTERS}0123456789-_`) },
};

/** A table from character code to value; `again` names the last digits a second time. */
function valuesOf(digits: string, again = ''): Uint8Array {
  const values = new Uint8Array(128).fill(NO_DIGIT);
  for (const [value, digit] of [...digits].entries()) values[digit.charCodeAt(0)] = value;
  const from = digits.length - again.length;
  for (const [index, digit] of [...again].entries()) values[digit.charCodeAt(0)] = from + index;
  return values;
}

/** Decodes strictly to 32 bytes; `undefined` is malformed. */
export function decodeSignature(
  value: string,
  { encoding, prefix = '' }: SignatureFormat,
): Uint8Array | undefined {
  if (!value.startsWith(prefix)) return undefined;
  const text = value.slice(prefix.length);
  const digits = text.length === 44 && text.endsWith('=') ? text.slice(0, 43) : text;
  for (const name of encoding === undefined ? SIGNATURE_ENCODINGS : [encoding]) {
    const bytes = digits.length === ALPHABETS[name].length ? decode(digits, ALPHABETS[name]) : undefined;
    if (bytes !== undefined) return bytes;
  }
  return undefined;
}

/** Judges and decodes in one pass: this runs once a delivery, and a pattern in front doubles what it takes. */
function decode(digits: string, { bitsPerDigit, values }: Alphabet): Uint8Array | undefined {
  const bytes = new Uint8Array(32);
  let seen = 0;
  let bits = 0;
  let count = 0;
  let at = 0;
  for (let index = 0; index < digits.length; index++) {
    const value = values[digits.charCodeAt(index)] ?? NO_DIGIT;
    seen |= value;
    bits = (bits << bitsPerDigit) | value;
    count += bitsPerDigit;
    if (count >= 8) {
      count -= 8;
      bytes[at++] = bits >> count;
      bits &= (1 << count) - 1;
    }
  }
  // 43 digits carry 258 bits: the two to spare must be zero, or two texts would mean one value.
  return seen < NO_DIGIT && bits === 0 ? bytes : undefined;
}

/** Writes 32 bytes. */
export function encodeSignature(bytes: Uint8Array, encoding: SignatureEncoding): string {
  if (encoding === 'hex') return toHex(bytes);
  const base64 = btoa(String.fromCharCode(...bytes));
  return encoding === 'base64' ? base64 : base64.replaceAll('+', '-').replaceAll('/', '_').replace('=', '');
}
