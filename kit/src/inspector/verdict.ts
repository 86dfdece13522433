import type { SignatureEncoding } from 'stablehooks';
import { explainSignature } from '../explain/explain-signature.js';
import { readOutcome } from '../io/delivery.js';
import type { Attempt } from '../sandbox/index.js';
import type { Verdict } from './api.js';

/** What the receiver should have verified with. The secret is used here and never leaves. */
interface Expected {
  readonly secret: string;
  readonly encoding: SignatureEncoding;
  readonly signatureHeader: string;
}

/** Judges an attempt: whether its signature was right, and what the answer says about the receiver. */
export async function judgeAttempt(
  { request, response, error }: Pick<Attempt, 'request' | 'response' | 'error'>,
  { secret, encoding, signatureHeader }: Expected,
): Promise<Verdict> {
  const explanation = await explainSignature({
    body: new TextEncoder().encode(request.body),
    signature: request.headers[signatureHeader] ?? '',
    secret: new TextEncoder().encode(secret),
    format: { encoding, prefix: '' },
  });
  return { explanation, ...toWords(explanation, { response, error }) };
}
