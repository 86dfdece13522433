/** HMAC-SHA256 using node:crypto. */
import { createHmac, timingSafeEqual } from 'node:crypto';

export function hmac(secret: string | Uint8Array, body: Uint8Array): Uint8Array {
  return createHmac('sha256', secret).update(body).digest();
}

/** Returns the index of the first secret that produces `mac`, or -1. It always checks every secret, in constant time. */
export function findSecret(
  secrets: readonly (string | Uint8Array)[],
  body: Uint8Array,
  mac: Uint8Array,
): number {
  return secrets.map((secret) => timingSafeEqual(hmac(secret, body), mac)).indexOf(true);
}

/** Decodes 64 hex digits, or returns `undefined` for other text. Using a regular expression would take twice as long. */
export function decodeHex(digits: string): Uint8Array | undefined {
  // `Buffer.from` reads only the low byte of each character, and stops at the first character that is not a hex digit.
  if (digits.length !== 64 || Buffer.byteLength(digits) !== 64) return undefined;
  const bytes = Buffer.from(digits, 'hex');
  return bytes.length === 32 ? bytes : undefined;
}
