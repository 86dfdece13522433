/** The signature of a delivery: HMAC-SHA256 over the exact bytes of its body. */
import { decodeBytes, encodeBase64, findSecret, hmac } from '#hmac';
import { toHex } from './bytes.js';
import { ConfigError, SignatureError, UnavailableError } from './errors.js';

/** The default header of the signature. In the real name, SERVICE is the name of your service. */
export const SIGNATURE_HEADER = 'X-SERVICE-Signature';

/** Every {@link SignatureEncoding}. */
export const SIGNATURE_ENCODINGS = ['hex', 'base64', 'base64url'] as const;

/** How the 32 bytes of a signature are written. */
export type SignatureEncoding = (typeof SIGNATURE_ENCODINGS)[number];

/** How a signature is written. The service does not specify it. */
export interface SignatureFormat {
  /**
   * Pins the encoding; a signature in another one is malformed.
   *
   * @default any: 64 hex digits, or 44 (padded) or 43 characters of base64 or base64url; these cannot collide
   */
  readonly encoding?: SignatureEncoding | undefined;
  /** What precedes the digits, such as `sha256=`; a signature without it is malformed. @default '' */
  readonly prefix?: string | undefined;
}

/** A key shared with the service: of a string, its UTF-8 bytes; of bytes, the bytes themselves. */
export type Secret = string | Uint8Array;

/** One secret, or several while one replaces another. */
export type Secrets = Secret | readonly Secret[];

/** Secrets, or a function that is called at every verification. The function can cache its result. */
export type SecretSource = Secrets | (() => Secrets | Promise<Secrets>);

/** Options of {@link sign}. */
export interface SignOptions extends SignatureFormat {
  /** The secret that signs. */
  readonly secret: Secret;
}

/** Options of {@link verifySignature}. */
export interface VerifyOptions extends SignatureFormat {
  /** Every secret is always compared, so that the response time does not reveal which one matched. */
  readonly secret: SecretSource;
  /** The name of the header, for messages. @default 'X-SERVICE-Signature' */
  readonly header?: string | undefined;
}

/** A body whose signature matched. */
export interface Verified {
  /** The bytes that were signed. */
  readonly body: Uint8Array;
  /** Which of the secrets made the signature, from 0. Once every delivery says 1, secret 0 can be removed. */
  readonly secretIndex: number;
}

/**
 * Signs a body as the service does.
 *
 * @returns the value of the signature header; hex unless `encoding` says otherwise.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the body is not bytes, the secret is empty or the encoding unknown.
 *
 * @example
 * ```ts
 * const signature = await sign(body, { secret: 'whsec_test' });
 * ```
 */
export async function sign(body: Uint8Array, options: SignOptions): Promise<string> {
  const { secret, encoding = 'hex', prefix = '' } = options;
  assertBytes(body);
  assertEncoding(encoding);
  const [key] = toSecrets([secret]);
  const mac = await hmac(key, body);
  return prefix + (encoding === 'hex' ? toHex(mac) : encodeBase64(mac, encoding));
}

/**
 * Verifies the signature of a body, in constant time, on decoded bytes. Resolves only when it matches.
 *
 * Pass the bytes as they arrived: a body that was parsed and serialized again has lost its signature. Or pass a
 * function that reads them: it is called only when the signature is well formed, so that a sender without one
 * cannot make you read a body.
 *
 * @throws {SignatureError} `ERR_SIGNATURE_MISSING`, `ERR_SIGNATURE_MALFORMED`, `ERR_SIGNATURE_MISMATCH`.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the body is not bytes, the encoding unknown, or a secret missing or empty.
 * @throws {UnavailableError} `ERR_SECRET_UNAVAILABLE` when the function that gives the secret fails.
 *
 * @example
 * ```ts
 * const { secretIndex } = await verifySignature(body, headers.get(SIGNATURE_HEADER), { secret });
 * ```
 */
export async function verifySignature(
  body: Uint8Array | (() => Promise<Uint8Array>),
  signature: string | null | undefined,
  options: VerifyOptions,
): Promise<Verified> {
  if (typeof body !== 'function') assertBytes(body);
  if (options.encoding !== undefined) assertEncoding(options.encoding);
  const fixed = typeof options.secret === 'function' ? undefined : toSecrets(options.secret);
  const mac = decode(signature, options);
  const bytes = typeof body === 'function' ? await body() : body;
  assertBytes(bytes);
  const secrets = fixed ?? toSecrets(await askSecrets(options.secret));
  const found = findSecret(secrets, bytes, mac);
  // node:crypto is synchronous; an await would add 5 % to a short body.
  const secretIndex = typeof found === 'number' ? found : await found;
  if (secretIndex !== -1) return { body: bytes, secretIndex };
  throw new SignatureError(
    'ERR_SIGNATURE_MISMATCH',
    'The signature does not match. Check the secret, and that nothing modifies the body.',
  );
}

/**
 * The secrets as a list.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when there is none, or one is empty, padded or of another type.
 */
export function toSecrets(secrets: Secrets): readonly [Secret, ...Secret[]] {
  const list: unknown = typeof secrets === 'string' || secrets instanceof Uint8Array ? [secrets] : secrets;
  if (!Array.isArray(list) || list.length === 0) {
    throw new ConfigError('No webhook secret was given. Pass `secret`: a string, bytes, or a list of these.');
  }
  for (const secret of list) {
    if (secret instanceof Uint8Array && secret.length > 0) continue;
    if (typeof secret !== 'string' || secret === '') {
      throw new ConfigError(
        'A webhook secret is empty, or neither a string nor bytes. Check its environment variable.',
      );
    }
    if (secret !== secret.trim()) {
      throw new ConfigError('A webhook secret begins or ends with white space. Trim it, or pass its bytes.');
    }
  }
  return list as unknown as readonly [Secret, ...Secret[]];
}

async function askSecrets(source: SecretSource): Promise<Secrets> {
  if (typeof source !== 'function') return source;
  try {
    return await source();
  } catch (cause) {
    throw new UnavailableError(
      'ERR_SECRET_UNAVAILABLE',
      'The function given as `secret` failed; see the cause.',
      { cause },
    );
  }
}

/** The 32 bytes of a signature; throws `ERR_SIGNATURE_MISSING` or `ERR_SIGNATURE_MALFORMED`. */
function decode(
  signature: string | null | undefined,
  { encoding, prefix = '', header = SIGNATURE_HEADER }: Omit<VerifyOptions, 'secret'>,
): Uint8Array {
  if (!signature) {
    throw new SignatureError(
      'ERR_SIGNATURE_MISSING',
      `There is no ${header} header. Check its name (\`signatureHeader\`), and that proxies pass it on.`,
    );
  }
  if (signature.startsWith(prefix)) {
    const digits = signature.slice(prefix.length);
    for (const name of encoding === undefined ? SIGNATURE_ENCODINGS : [encoding]) {
      const bytes = decodeStrictly(digits, name);
      if (bytes !== undefined) return bytes;
    }
  }
  throw new SignatureError(
    'ERR_SIGNATURE_MALFORMED',
    `The ${header} header is not ${encoding ?? 'hex or base64'} of 32 bytes. Check the encoding and the prefix, and that it is sent once.`,
  );
}

/** Platforms ignore characters that they cannot decode, and spare bits of base64. */
function decodeStrictly(digits: string, encoding: SignatureEncoding): Uint8Array | undefined {
  if (encoding === 'hex') return HEX.test(digits) ? decodeBytes(digits, encoding) : undefined;
  const bare = digits.length === 44 && digits.endsWith('=') ? digits.slice(0, 43) : digits;
  if (bare.length !== 43) return undefined;
  const bytes = decodeBytes(bare, encoding);
  return bytes.length === 32 && encodeBase64(bytes, encoding).replace('=', '') === bare ? bytes : undefined;
}

const HEX = /^[0-9a-f]{64}$/i;

function assertBytes(body: unknown): asserts body is Uint8Array {
  if (body instanceof Uint8Array) return;
  throw new ConfigError(
    'The body must be the raw bytes (a Uint8Array or Buffer), not a string or a parsed object.',
  );
}

function assertEncoding(encoding: string): void {
  if ((SIGNATURE_ENCODINGS as readonly string[]).includes(encoding)) return;
  throw new ConfigError(`\`encoding\` must be one of ${SIGNATURE_ENCODINGS.join(', ')}.`);
}
