/** HMAC-SHA256 on Node: synchronous node:crypto, which is several times faster there than WebCrypto. */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';

export type HmacKey = KeyObject;

/** Imports a secret once, so that no delivery pays for it. */
export function importKey(secret: Uint8Array): HmacKey {
  return createSecretKey(secret);
}

/** The 32 bytes of HMAC-SHA256 over the body. */
export function digest(key: HmacKey, body: Uint8Array): Uint8Array {
  return createHmac('sha256', key).update(body).digest();
}

/** Whether `mac` (32 bytes) is the body's under one of the keys, in constant time; always asks all of them. */
export function matchesAny(keys: readonly HmacKey[], body: Uint8Array, mac: Uint8Array): boolean {
  let matched = false;
  for (const key of keys) matched = timingSafeEqual(digest(key, body), mac) || matched;
  return matched;
}
