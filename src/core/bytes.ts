export function joinBytes(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Also accepts a Uint8Array from another realm, such as jsdom in Jest. */
export function isBytes(value: unknown): value is Uint8Array {
  return (
    value instanceof Uint8Array ||
    (ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === '[object Uint8Array]')
  );
}

export function encode(bytes: Uint8Array, encoding: 'hex' | 'base64' | 'base64url'): string {
  return encoding === 'hex' ? toHex(bytes) : toBase64(bytes, encoding);
}

function toBase64(bytes: Uint8Array, encoding: 'base64' | 'base64url'): string {
  const base64 = btoa(String.fromCharCode(...bytes));
  return encoding === 'base64' ? base64 : base64.replaceAll('+', '-').replaceAll('/', '_').replace('=', '');
}

/** Accepts only canonical digits without padding: encoding the result must produce the same digits. */
export function decodeBase64(digits: string, encoding: 'base64' | 'base64url'): Uint8Array | undefined {
  try {
    const binary = atob(digits.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    return toBase64(bytes, encoding).replace('=', '') === digits ? bytes : undefined;
  } catch {
    return undefined;
  }
}
