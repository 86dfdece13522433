/** The key by which an API outside recognises a repeated call. */
import { ConfigError } from '../core/errors.js';
import { isName } from '../core/events.js';

const OFFSET = 0x6c62272e07bb014262b821756295c58dn;
const PRIME = 0x1000000000000000000013bn;
const encoder = new TextEncoder();

/** Returns a version 4 UUID, which payment APIs accept. The hash is FNV-1a, because platform hashes are asynchronous. */
export function toIdempotencyKey(id: string, ...given: readonly [name?: string]): string {
  const [name = ''] = given;
  // A missing name would share the key of the call without one, and two objects would share theirs.
  if (given.length > 0 && !isName(name)) {
    throw new ConfigError('ctx.idempotencyKey: the name must be a string of 1 to 512 bytes, or left out.');
  }
  let hash = OFFSET;
  // Neither an id nor a name contains a control character.
  for (const byte of encoder.encode(`${id}\0${name}`)) {
    hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * PRIME);
  }
  const hex = hash.toString(16).padStart(32, '0');
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})/, '$1-$2-4$3-8$4-');
}
