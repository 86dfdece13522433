/** HMAC-SHA256 by WebCrypto, whose `verify` compares in constant time, and bytes as strings by `atob` and `btoa`. */

const ALGORITHM = { name: 'HMAC', hash: 'SHA-256' };

/** Keys of string secrets: to import one costs about as much as to verify a short body. */
const keys = new Map<string, Promise<CryptoKey>>();
const MAX_KEYS = 64;

/** The 32 bytes of HMAC-SHA256 over the body. */
export async function hmac(secret: string | Uint8Array, body: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.sign('HMAC', await toKey(secret), unshared(body)));
}

/**
 * The index of the first secret whose HMAC over the body is `mac` (32 bytes), or -1. Compares in constant time,
 * and always with every secret, so that time does not tell which one matched.
 */
export async function findSecret(
  secrets: readonly (string | Uint8Array)[],
  body: Uint8Array,
  mac: Uint8Array,
): Promise<number> {
  const verify = async (secret: string | Uint8Array) =>
    crypto.subtle.verify('HMAC', await toKey(secret), unshared(mac), unshared(body));
  return (await Promise.all(secrets.map(verify))).indexOf(true);
}

function toKey(secret: string | Uint8Array): Promise<CryptoKey> {
  if (typeof secret !== 'string') return importKey(secret);
  const known = keys.get(secret);
  if (known !== undefined) return known;
  const key = importKey(new TextEncoder().encode(secret));
  if (keys.size >= MAX_KEYS) keys.clear();
  keys.set(secret, key);
  return key;
}

function importKey(secret: Uint8Array): Promise<CryptoKey> {
  return crypto.subtle.importKey('raw', unshared(secret), ALGORITHM, false, ['sign', 'verify']);
}

/** WebCrypto refuses views of shared memory, because another thread could change it meanwhile: copies those. */
function unshared(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);
}

/** Writes bytes; base64 with padding. */
export function encodeBytes(bytes: Uint8Array, encoding: 'hex' | 'base64' | 'base64url'): string {
  if (encoding === 'hex') return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const base64 = btoa(String.fromCharCode(...bytes));
  return encoding === 'base64' ? base64 : base64.replaceAll('+', '-').replaceAll('/', '_').replace('=', '');
}

/** Reads bytes; none when the string is not well formed. */
export function decodeBytes(digits: string, encoding: 'hex' | 'base64' | 'base64url'): Uint8Array {
  if (encoding === 'hex') {
    return Uint8Array.from(digits.match(/[0-9a-f]{2}/gi) ?? [], (pair) => Number.parseInt(pair, 16));
  }
  try {
    const binary = atob(digits.replaceAll('-', '+').replaceAll('_', '/'));
    return Uint8Array.from(binary, (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
