import { createHmac, timingSafeEqual } from 'node:crypto';

export function hmac(secret: string | Uint8Array, body: Uint8Array): Uint8Array {
  return createHmac('sha256', secret).update(body).digest();
}

/** Checks every secret, even after a match, and compares in constant time. */
export function findSecret(
  secrets: readonly (string | Uint8Array)[],
  body: Uint8Array,
  mac: Uint8Array,
): number {
  return secrets.map((secret) => timingSafeEqual(hmac(secret, body), mac)).indexOf(true);
}

/** A regular expression would take twice as long. */
export function decodeHex(digits: string): Uint8Array | undefined {
  // `Buffer.from` reads only the low byte of each character, and stops at the first character that is not a hex digit.
  if (digits.length !== 64 || Buffer.byteLength(digits) !== 64) return undefined;
  const bytes = Buffer.from(digits, 'hex');
  return bytes.length === 32 ? bytes : undefined;
}
