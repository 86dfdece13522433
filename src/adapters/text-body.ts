/** The body of a delivery that a platform passes as text. */
import { tooLarge, unavailable } from './body-error.js';

/** @param body - the text, or the value that a middleware in front of the handler left in its place. */
export function toBytes(
  body: unknown,
  {
    encoding,
    maxBytes,
    fix,
  }: { readonly encoding: 'utf8' | 'base64'; readonly maxBytes: number; readonly fix: string },
): Uint8Array {
  if (typeof body !== 'string') throw unavailable(fix);
  const bytes = Buffer.from(body, encoding);
  if (bytes.length > maxBytes) throw tooLarge(maxBytes);
  return bytes;
}
