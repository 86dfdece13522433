/** The HTTP side of a delivery: what an adapter hands in, and the checks before any byte is trusted. */
import { RequestError } from '../core/errors.js';
import { readSignature } from '../core/signature.js';
import type { SignatureFormat } from '../core/signature-encoding.js';

/** One HTTP request, as far as a delivery needs it. An adapter knows its framework, and nothing else. */
export interface WebhookRequest {
  readonly method: string;
  /** The header's value, several joined by a comma, whatever the case of the name. */
  header(name: string): string | null | undefined;
  /**
   * Reads the exact bytes of the body, at most `maxBodyBytes`; called once, and only when they are wanted.
   *
   * Rejects with a {@link RequestError}: `ERR_BODY_TOO_LARGE`, `ERR_BODY_INCOMPLETE`, `ERR_BODY_UNAVAILABLE`.
   */
  body(options: { readonly maxBodyBytes: number }): Promise<Uint8Array>;
}

/** What {@link readWebhookRequest} needs to know. */
export interface WebhookRequestRules extends SignatureFormat {
  readonly header: string;
  readonly maxBodyBytes: number;
}

/**
 * The raw body and the signature that came with it, not yet compared.
 *
 * The cheap checks come first, so that whoever sends no signature cannot make us read a body.
 *
 * @throws {RequestError} | {SignatureError} as the codes say.
 */
export async function readWebhookRequest(
  request: WebhookRequest,
  rules: WebhookRequestRules,
): Promise<{ readonly body: Uint8Array; readonly mac: Uint8Array }> {
  if (request.method !== 'POST') {
    throw new RequestError(
      'ERR_METHOD_NOT_ALLOWED',
      'A delivery is a POST. Mount the receiver where the service posts to.',
    );
  }
  const encoding = request.header('content-encoding');
  if (encoding && encoding.trim().toLowerCase() !== 'identity') {
    throw new RequestError(
      'ERR_BODY_ENCODED',
      'The body is compressed, and the signature covers the bytes before that or after: unspecified. Have the sender or the proxy send it uncompressed.',
    );
  }
  const mac = readSignature(request.header(rules.header), rules);
  return { body: await request.body(rules), mac };
}
