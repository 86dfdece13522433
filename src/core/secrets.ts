/** Secrets: what a caller may give, and the keys that are made of it. */
import { type HmacKey, importKey } from '#hmac';
import { ConfigError } from './errors.js';

/** The key shared with the service: text is taken as its UTF-8 bytes, bytes as they are. */
export type Secret = string | Uint8Array;

/** One secret, or several while one replaces another. */
export type Secrets = Secret | readonly Secret[];

/** Imported text secrets are kept: importing costs about as much as verifying a short body. */
const kept = new Map<string, HmacKey>();
const KEPT_KEYS = 64;

/**
 * Imports one or several secrets.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when there is none, or one is empty, padded or of another type.
 */
export function toKeys(secrets: Secrets): readonly HmacKey[] {
  const list = typeof secrets === 'string' || secrets instanceof Uint8Array ? [secrets] : secrets;
  if (!Array.isArray(list) || list.length === 0) {
    throw new ConfigError(
      'No webhook secret was given. Pass `secret` as text, as bytes, or as a list of these.',
    );
  }
  return list.map(toKey);
}

/** Imports one secret; see {@link toKeys}. */
export function toKey(secret: Secret): HmacKey {
  if (secret instanceof Uint8Array && secret.length > 0) return importKey(secret);
  if (typeof secret !== 'string' || secret === '') {
    throw new ConfigError(
      'A webhook secret is empty or neither text nor bytes. Is the environment variable that holds it set?',
    );
  }
  if (secret !== secret.trim()) {
    throw new ConfigError(
      'A webhook secret begins or ends with white space, as when it is read from a file. Trim it; if it is meant, pass its bytes.',
    );
  }
  const known = kept.get(secret);
  if (known !== undefined) return known;
  const key = importKey(new TextEncoder().encode(secret));
  if (kept.size >= KEPT_KEYS) kept.clear();
  kept.set(secret, key);
  return key;
}
