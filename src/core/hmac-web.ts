/** HMAC-SHA256 where there is no node:crypto: WebCrypto, whose `verify` compares in constant time. */

/** A promise, so that importing stays synchronous as on Node. */
export type HmacKey = Promise<CryptoKey>;

const algorithm = { name: 'HMAC', hash: 'SHA-256' };

/** Imports a secret once, so that no delivery pays for it. */
export function importKey(secret: Uint8Array): HmacKey {
  return crypto.subtle.importKey('raw', owned(secret), algorithm, false, ['sign', 'verify']);
}

/** The 32 bytes of HMAC-SHA256 over the body. */
export async function digest(key: HmacKey, body: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.sign('HMAC', await key, owned(body)));
}

/** Whether `mac` (32 bytes) is the body's under one of the keys, in constant time; always asks all of them. */
export async function matchesAny(
  keys: readonly HmacKey[],
  body: Uint8Array,
  mac: Uint8Array,
): Promise<boolean> {
  const verify = async (key: HmacKey) => crypto.subtle.verify('HMAC', await key, owned(mac), owned(body));
  return (await Promise.all(keys.map(verify))).includes(true);
}

/** WebCrypto refuses views of shared memory, which another thread could change meanwhile: copy those. */
function owned(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return bytes.buffer instanceof ArrayBuffer ? (bytes as Uint8Array<ArrayBuffer>) : new Uint8Array(bytes);
}
