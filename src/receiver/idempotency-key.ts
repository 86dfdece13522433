import { ConfigError } from '../core/errors.js';
import { isName } from '../core/events.js';

const OFFSET = 0x6c62272e07bb014262b821756295c58dn;
const PRIME = 0x1000000000000000000013bn;
const encoder = new TextEncoder();

/** A version 4 UUID, because payment APIs accept it. FNV-1a, because platforms compute hashes asynchronously. */
export function toIdempotencyKey(id: string, ...given: readonly [name?: string]): string {
  const [name = ''] = given;
  // Otherwise, `undefined` would produce the same key as no name, and all objects would produce the same key.
  if (given.length > 0 && !isName(name)) {
    throw new ConfigError('ctx.idempotencyKey: the name must be a string of 1 to 512 bytes, or left out.');
  }
  let hash = OFFSET;
  // The separator is unambiguous, because neither an id nor a name contains a control character.
  for (const byte of encoder.encode(`${id}\0${name}`)) {
    hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * PRIME);
  }
  const hex = hash.toString(16).padStart(32, '0');
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})/, '$1-$2-4$3-8$4-');
}
