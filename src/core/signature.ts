/** The signature: HMAC-SHA256 over the exact bytes of a body (`service.md`, signature rules 1 to 3). */
import { digest, type HmacKey, matchesAny } from '#hmac';
import { ConfigError, SignatureError } from './errors.js';
import { type Secret, type Secrets, toKey, toKeys } from './secrets.js';
import { decodeSignature, encodeSignature, type SignatureFormat } from './signature-encoding.js';

/** The header of `service.md`; SERVICE stands for the maker's name in the real one. */
export const SIGNATURE_HEADER = 'X-SERVICE-Signature';

/** Options of {@link sign}. */
export interface SignOptions extends SignatureFormat {
  readonly secret: Secret;
}

/** Options of {@link verifySignature}. */
export interface VerifyOptions extends SignatureFormat {
  /** One secret or several: all are tried, always all of them, so that time does not tell which matched. */
  readonly secret: Secrets;
}

/**
 * Signs a body as the service does.
 *
 * @returns the value of the signature header; hex unless `encoding` says otherwise.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the body is not bytes or the secret is empty.
 *
 * @example
 * ```ts
 * const signature = await sign(body, { secret: 'whsec_test' });
 * ```
 */
export async function sign(body: Uint8Array, options: SignOptions): Promise<string> {
  assertBytes(body);
  const mac = await digest(toKey(options.secret), body);
  return (options.prefix ?? '') + encodeSignature(mac, options.encoding ?? 'hex');
}

/**
 * Whether the signature is that of the body, compared in constant time on decoded bytes.
 *
 * A missing or malformed signature is `false`, like a wrong one. Never pass a body that was parsed and
 * written again: only the bytes as they arrived carry the signature.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the body is not bytes or the secret is empty.
 *
 * @example
 * ```ts
 * if (!(await verifySignature(body, header, { secret }))) return new Response(null, { status: 401 });
 * ```
 */
export async function verifySignature(
  body: Uint8Array,
  signature: string | null | undefined,
  options: VerifyOptions,
): Promise<boolean> {
  assertBytes(body);
  const keys = toKeys(options.secret);
  const mac = signature ? decodeSignature(signature, options) : undefined;
  return mac !== undefined && matchesAny(keys, body, mac);
}

/** Reads the header's value into 32 bytes, or throws `ERR_SIGNATURE_MISSING` or `ERR_SIGNATURE_MALFORMED`. */
export function readSignature(
  value: string | null | undefined,
  format: SignatureFormat & { readonly header: string },
): Uint8Array {
  if (!value) {
    throw new SignatureError(
      'ERR_SIGNATURE_MISSING',
      `There is no ${format.header} header. Set \`signatureHeader\` if the service names it otherwise, and let proxies pass it on.`,
    );
  }
  const mac = decodeSignature(value, format);
  if (mac !== undefined) return mac;
  throw new SignatureError(
    'ERR_SIGNATURE_MALFORMED',
    `The ${format.header} header is not ${format.encoding ?? 'hex or base64'} of 32 bytes${
      format.prefix ? ' behind the configured prefix' : ''
    }. Check \`encoding\` and \`signaturePrefix\`, and that the header is sent once.`,
  );
}

/** Throws `ERR_SIGNATURE_MISMATCH` unless one of the keys made this MAC over the body. */
export async function assertSignature(
  body: Uint8Array,
  mac: Uint8Array,
  keys: readonly HmacKey[],
): Promise<void> {
  if (await matchesAny(keys, body, mac)) return;
  throw new SignatureError(
    'ERR_SIGNATURE_MISMATCH',
    'The signature is not that of this body under any configured secret. Check the secret, and that nothing in front changes the body.',
  );
}

function assertBytes(body: Uint8Array): void {
  if (body instanceof Uint8Array) return;
  throw new ConfigError(
    'The body must be the raw bytes (a Uint8Array or Buffer). Text or a parsed object does not carry the signature.',
  );
}
