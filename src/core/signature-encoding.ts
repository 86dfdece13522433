/** How a signature is written: 32 bytes as hex, base64 or base64url, decoded strictly. */

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

const HEX = /^[0-9a-f]{64}$/i;
// 43 characters carry 258 bits: the last one's two spare bits must be zero, or two texts would mean one value.
const BASE64 = /^[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=?$/;
const BASE64URL = /^[0-9A-Za-z_-]{42}[AEIMQUYcgkosw048]=?$/;

/** Decodes strictly to 32 bytes; `undefined` is malformed. */
export function decodeSignature(
  value: string,
  { encoding, prefix = '' }: SignatureFormat,
): Uint8Array | undefined {
  if (!value.startsWith(prefix)) return undefined;
  const text = value.slice(prefix.length);
  if (HEX.test(text) && (encoding ?? 'hex') === 'hex') return decode(text, 4);
  if (BASE64.test(text) && (encoding ?? 'base64') === 'base64') return decode(text, 6);
  if (BASE64URL.test(text) && (encoding ?? 'base64url') === 'base64url') return decode(text, 6);
  return undefined;
}

const HEX_DIGITS = '0123456789abcdef';
const BASE64_DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const HEX_VALUES = valuesOf(`${HEX_DIGITS}ABCDEF`, (index) => (index < 16 ? index : index - 6));
const BASE64_VALUES = valuesOf(`${BASE64_DIGITS}-_`, (index) => (index < 64 ? index : index - 2));

function valuesOf(digits: string, value: (index: number) => number): Uint8Array {
  const table = new Uint8Array(128);
  for (let index = 0; index < digits.length; index++) table[digits.charCodeAt(index)] = value(index);
  return table;
}

/** Turns digits of 4 or 6 bits, already judged, into 32 bytes. */
function decode(digits: string, bitsPerDigit: 4 | 6): Uint8Array {
  const values = bitsPerDigit === 4 ? HEX_VALUES : BASE64_VALUES;
  const bytes = new Uint8Array(32);
  let bits = 0;
  let count = 0;
  let at = 0;
  for (let index = 0; at < 32; index++) {
    bits = (bits << bitsPerDigit) | (values[digits.charCodeAt(index)] ?? 0);
    count += bitsPerDigit;
    if (count >= 8) {
      count -= 8;
      bytes[at++] = bits >> count;
      bits &= (1 << count) - 1;
    }
  }
  return bytes;
}

/** Writes 32 bytes. */
export function encodeSignature(bytes: Uint8Array, encoding: SignatureEncoding): string {
  if (encoding === 'hex') return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const base64 = btoa(String.fromCharCode(...bytes));
  return encoding === 'base64' ? base64 : base64.replaceAll('+', '-').replaceAll('/', '_').replace('=', '');
}
