/** For platforms that have only WebCrypto, whose `verify` compares in constant time. */

export async function hmac(secret: string | Uint8Array, body: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.sign('HMAC', await toKey(secret), body as BufferSource));
}

export async function findSecret(
  secrets: readonly (string | Uint8Array)[],
  body: Uint8Array,
  mac: Uint8Array,
): Promise<number> {
  const verify = async (secret: string | Uint8Array) =>
    crypto.subtle.verify('HMAC', await toKey(secret), mac as BufferSource, body as BufferSource);
  return (await Promise.all(secrets.map(verify))).indexOf(true);
}

function toKey(secret: string | Uint8Array): Promise<CryptoKey> {
  const bytes = typeof secret === 'string' ? new TextEncoder().encode(secret) : (secret as BufferSource);
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']);
}

export function decodeHex(digits: string): Uint8Array | undefined {
  if (!/^[0-9a-f]{64}$/i.test(digits)) return undefined;
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
