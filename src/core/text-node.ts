/** UTF-8 on Node, strictly: what is ASCII, as nearly every body is, is copied and not decoded (measured: test/bench). */
import { isAscii } from 'node:buffer';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The text of the bytes; throws a `TypeError` when they are not UTF-8, and never puts U+FFFD in their place. */
export function decodeUtf8(bytes: Uint8Array): string {
  if (!isAscii(bytes)) return utf8.decode(bytes);
  const buffer = Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString('latin1');
}
