/** UTF-8 where there is no node:buffer, strictly. */

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The text of the bytes; throws a `TypeError` when they are not UTF-8, and never puts U+FFFD in their place. */
export function decodeUtf8(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}
