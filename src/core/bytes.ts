/** Joins the chunks, which hold `size` bytes together. */
export function joinBytes(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

const utf8 = new TextEncoder();

/** Whether the text has at most so many bytes in UTF-8. */
export function fitsBytes(text: string, maxBytes: number): boolean {
  // A UTF-16 unit is at least one byte and at most three.
  return text.length * 3 <= maxBytes || (text.length <= maxBytes && utf8.encode(text).length <= maxBytes);
}

/** Writes the bytes as lower-case hex. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
