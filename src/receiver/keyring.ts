/** The keyring: the secrets in force, however the user gives them. */
import type { HmacKey } from '#hmac';
import { UnavailableError } from '../core/errors.js';
import { type Secrets, toKeys } from '../core/secrets.js';

/**
 * One secret, several while they rotate, or a function that is asked at every delivery (and keeps what it
 * fetched as long as it likes).
 */
export type SecretSource = Secrets | (() => Secrets | Promise<Secrets>);

/** Gives the keys in force. Secrets given as such are checked and imported now, and only once. */
export type Keyring = () => readonly HmacKey[] | Promise<readonly HmacKey[]>;

/**
 * Makes a keyring.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when secrets given as such are missing or empty.
 */
export function createKeyring(source: SecretSource): Keyring {
  if (typeof source !== 'function') {
    const keys = toKeys(source);
    return () => keys;
  }
  return async () => {
    let secrets: Secrets;
    try {
      secrets = await source();
    } catch (cause) {
      throw new UnavailableError(
        'ERR_SECRET_UNAVAILABLE',
        'The function given as `secret` failed, so no signature can be judged. Check where it gets the secret.',
        { cause },
      );
    }
    return toKeys(secrets);
  };
}
