/** A signature is the HMAC-SHA256 of the exact bytes of the body. */
import { decodeHex, findSecret, hmac } from 'stablehooks/internal/hmac';
import type { Awaitable } from './awaitable.js';
import { decodeBase64, encode, isBytes } from './bytes.js';
import { ConfigError, SignatureError, StablehooksError } from './errors.js';

/** The default name of the signature header. In the real header, the name of your service takes the place of SERVICE. */
export const SIGNATURE_HEADER = 'X-SERVICE-Signature';

/** All signature encodings. */
export const SIGNATURE_ENCODINGS = ['hex', 'base64', 'base64url'] as const;

/** How the 32 bytes of a signature are encoded as text. */
export type SignatureEncoding = (typeof SIGNATURE_ENCODINGS)[number];

/** How a signature is written as text. The service doesn't specify this format. */
export interface SignatureFormat {
  /** The only encoding to accept. @default any: 64 hex digits, or 43 characters of base64 or base64url, padded or not */
  readonly encoding?: SignatureEncoding | undefined;
  /** The text before the encoded bytes, such as `sha256=`. A signature without it is malformed. @default '' */
  readonly prefix?: string | undefined;
}

/** A key that you share with the service. A string is encoded as UTF-8. */
export type Secret = string | Uint8Array;

/** One secret, or several secrets during a rotation. */
export type Secrets = Secret | readonly Secret[];

/** Returns the secrets for one verification, or `null` to reject an unknown sender. Returning `undefined` is an error. */
export type SecretFunction<Args extends readonly unknown[] = []> = (
  ...args: Args
) => Secrets | null | Promise<Secrets | null>;

/** Options of {@link sign}. */
export interface SignOptions extends SignatureFormat {
  /** The secret to sign with. */
  readonly secret: Secret;
}

/** Options of {@link verifySignature}. */
export interface VerifyOptions extends SignatureFormat {
  /**
   * One or more secrets, or a function that returns them. The function is called for every verification, and can cache its
   * result. Every secret is always checked, so the response time doesn't reveal which secret matched.
   */
  readonly secret: Secrets | SecretFunction;
  /** The header name to use in error messages. @default 'X-SERVICE-Signature' */
  readonly header?: string | undefined;
}

/** A body with a valid signature. */
export interface Verified {
  /** The bytes that were signed. */
  readonly body: Uint8Array;
  /** The index of the secret that matched. Once every delivery matches the new secret, you can remove the old one. */
  readonly secretIndex: number;
}

/**
 * Signs a body the way the service does.
 *
 * @returns the value of the signature header, in hex unless you set `encoding`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the body is not bytes or the secret is empty.
 */
export async function sign(
  body: Uint8Array,
  { secret, encoding = 'hex', prefix = '' }: SignOptions,
): Promise<string> {
  if (!isBytes(body)) throw notBytes();
  const [key] = toSecrets([secret]);
  const mac = await hmac(key, body);
  return prefix + encode(mac, encoding);
}

/**
 * Verifies the signature of a body. Resolves only if the signature is valid, and compares signatures in constant time.
 *
 * Pass the bytes as they arrived: a body that you parse and serialize again no longer matches its signature. If `signature`
 * is an array, which Node passes for some repeated headers, the signature is treated as malformed.
 *
 * @throws {SignatureError} `ERR_SIGNATURE_MISSING`, `ERR_SIGNATURE_MALFORMED` or `ERR_SIGNATURE_MISMATCH`, or
 * `ERR_SECRET_UNKNOWN` when the `secret` function returns `null`. Rejecting an unknown sender takes as long as rejecting a
 * wrong signature.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the body is not bytes, or a secret is missing or empty.
 * @throws {StablehooksError} `ERR_SECRET_UNAVAILABLE` when the `secret` function fails.
 */
export async function verifySignature(
  body: Uint8Array,
  signature: string | readonly string[] | null | undefined,
  options: VerifyOptions,
): Promise<Verified> {
  const { secret } = options;
  const source = typeof secret === 'function' ? secret : toSecrets(secret);
  const mac = decodeSignature(signature, options);
  return { body, secretIndex: await matchSecret(body, mac, source) };
}

/** Synchronous if {@link findSecret} is, because awaiting a promise would add 5 % to the time for a short body. */
export function matchSecret(
  body: Uint8Array,
  mac: Uint8Array,
  source: readonly Secret[] | SecretFunction,
): Awaitable<number> {
  if (!isBytes(body)) throw notBytes();
  const found = typeof source === 'function' ? findAsked(source, body, mac) : findSecret(source, body, mac);
  const isFound = typeof found === 'number' && found !== -1;
  return isFound ? found : Promise.resolve(found).then(orMismatch);
}

async function findAsked(source: SecretFunction, body: Uint8Array, mac: Uint8Array): Promise<number> {
  const secrets = await askSecrets(source);
  const found = await findSecret(secrets ?? DECOY, body, mac);
  if (secrets !== null) return found;
  throw new SignatureError(
    'ERR_SECRET_UNKNOWN',
    'The `secret` function returned null, so it has no secret for this request. Check the path and headers that the service sends.',
  );
}

function orMismatch(secretIndex: number): number {
  if (secretIndex !== -1) return secretIndex;
  throw new SignatureError(
    'ERR_SIGNATURE_MISMATCH',
    'The signature does not match. Check the secret, and make sure that nothing modifies the body.',
  );
}

/** Checked if the sender is unknown, so that rejecting the delivery takes as long as it does for a known sender. */
const DECOY = ['decoy'] as const;

export function toSecrets(secrets: Secrets): readonly [Secret, ...Secret[]] {
  const list: unknown = typeof secrets === 'string' || isBytes(secrets) ? [secrets] : secrets;
  // The array is copied, because methods such as `map` skip holes in an array.
  const copy: unknown[] = Array.isArray(list) ? Array.from(list) : [];
  const wrong = copy.findIndex((each) => !isSecret(each));
  if (copy.length > 0 && wrong === -1) return copy as [Secret, ...Secret[]];
  const name = Array.isArray(secrets) && copy.length > 0 ? `secret[${wrong}]` : 'secret';
  if (copy[wrong] === '')
    throw new ConfigError(
      name === 'secret'
        ? '`secret` is empty. Check its environment variable.'
        : `\`${name}\` is empty. Check its environment variable, or leave the element out, as in \`OLD ? [NEW, OLD] : NEW\`.`,
    );
  throw new ConfigError(
    `\`${name}\` must be a string without leading or trailing white space, bytes that are not all zero, or a list of these. Check its environment variable.`,
  );
}

/** HMAC treats a key of zeros like an empty key, and white space at either end is usually a mistake. */
function isSecret(secret: unknown): boolean {
  return typeof secret === 'string'
    ? /[^\0]/.test(secret) && secret === secret.trim()
    : isBytes(secret) && secret.some((byte) => byte !== 0);
}

async function askSecrets(source: SecretFunction): Promise<readonly Secret[] | null> {
  let secrets: Secrets | null;
  try {
    secrets = await source();
  } catch (cause) {
    throw new StablehooksError('ERR_SECRET_UNAVAILABLE', 'The `secret` function failed; see the cause.', {
      cause,
    });
  }
  return secrets === null ? null : toSecrets(secrets);
}

export function decodeSignature(
  signature: unknown,
  { encoding, prefix = '', header = SIGNATURE_HEADER }: Omit<VerifyOptions, 'secret'>,
): Uint8Array {
  if (signature === undefined || signature === null || signature === '') {
    throw new SignatureError(
      'ERR_SIGNATURE_MISSING',
      `The request has no ${header} header. Check the name in \`signature.header\`, and make sure that proxies forward the header.`,
    );
  }
  if (typeof signature === 'string' && signature.startsWith(prefix)) {
    const digits = signature.slice(prefix.length);
    const hex = (encoding ?? 'hex') === 'hex' ? decodeHex(digits) : undefined;
    if (hex !== undefined) return hex;
    const base64 = /^([^=]{43})=?$/.exec(digits)?.[1] ?? '';
    for (const name of ['base64', 'base64url'] as const) {
      const bytes = encoding === undefined || encoding === name ? decodeBase64(base64, name) : undefined;
      if (bytes?.length === 32) return bytes;
    }
  }
  throw new SignatureError(
    'ERR_SIGNATURE_MALFORMED',
    `The ${header} header is not a 32-byte signature in ${encoding ?? 'hex or base64'}. Check the encoding and the prefix, and make sure that the header is sent only once.`,
  );
}

function notBytes(): ConfigError {
  return new ConfigError(
    'The body must be the raw bytes (a Uint8Array or Buffer), not a string or a parsed object.',
  );
}
