import type { UnknownEvent } from '../core/events.js';
import { type Secret, SIGNATURE_HEADER, type SignatureFormat, sign } from '../core/signature.js';

/** Options of {@link signedRequest}. */
export interface SignedRequestOptions extends SignatureFormat {
  readonly secret: Secret;
  /** The endpoint's URL. For supertest and for Fastify's `inject`, a path is enough. @default 'http://localhost/hooks' */
  readonly url?: string | undefined;
  /** The name of the signature header. @default 'X-SERVICE-Signature' */
  readonly header?: string | undefined;
}

/** Bytes that `fetch` accepts in every release of TypeScript, even without `@types/node`. */
type Bytes = ReturnType<TextEncoder['encode']>;

/** A delivery, as the service sends it. Pass it to `fetch(url, signed)` or to Fastify's `inject(signed)`. */
export interface SignedRequest {
  readonly method: 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The signed bytes, as a Buffer. `toString()` returns the JSON text. */
  readonly body: Bytes;
  /** Returns a web Request for a fetch handler or an App Router route. The `url` must be absolute. */
  toRequest(): Request;
}

/**
 * Creates a delivery that is signed the way the service signs it. If you pass bytes, they become the body unchanged.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the secret is missing or empty.
 *
 * @example
 * ```ts
 * const signed = await signedRequest(exampleEvent('transfer.settled'), { secret, url: '/hooks' });
 * // As a string, because supertest writes a Buffer as JSON.
 * await request(app).post(signed.url).set(signed.headers).send(signed.body.toString()).expect(200);
 * ```
 */
export async function signedRequest(
  event: UnknownEvent | Uint8Array,
  { url = 'http://localhost/hooks', header = SIGNATURE_HEADER, ...signing }: SignedRequestOptions,
): Promise<SignedRequest> {
  // Not `instanceof`, because with jsdom in Jest or Vitest, bytes can come from another realm.
  const body = ArrayBuffer.isView(event) ? Buffer.from(event) : Buffer.from(JSON.stringify(event));
  const headers = {
    'content-type': 'application/json',
    [header.toLowerCase()]: await sign(body, signing),
  };
  const toRequest = () => new Request(url, { method: 'POST', headers, body });
  return { method: 'POST', url, headers, body, toRequest };
}
