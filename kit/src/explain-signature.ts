/** Why a signature is not that of a body: tries what may have happened to body, secret and signature. */

import type { SignatureFormat } from 'stablehooks';
import { sign } from 'stablehooks';
import { listBodies } from './body-variants.js';
import { listSecrets } from './secret-variants.js';
import { listMacs } from './signature-variants.js';
import type { Change, Variant } from './variant.js';

/** What is to be explained. */
interface SignatureQuestion {
  readonly body: Uint8Array;
  readonly signature: string;
  readonly secret: Uint8Array;
  readonly format: SignatureFormat;
  /** Bodies of other deliveries, whose header this may be. */
  readonly others?: readonly { readonly name: string; readonly body: Uint8Array }[];
}

/**
 * The answer.
 *
 * - `verified`: it is the signature.
 * - `explained`: it would be with these changes undone, the fewest that were found.
 * - `malformed`: the text is no signature, however it is read.
 * - `unexplained`: nothing that was tried fits: another secret, or a body that was really changed.
 */
export type SignatureAnswer =
  | { readonly verdict: 'verified' }
  | { readonly verdict: 'explained'; readonly changes: readonly Change[] }
  | { readonly verdict: 'malformed' }
  | { readonly verdict: 'unexplained'; readonly tried: number };

/** Larger bodies are tried with one change to the secret only, to answer within seconds. */
const THOROUGH_LIMIT_BYTES = 65_536;

/** Explains; pure, and its answer holds neither the secret nor the body. */
export async function explainSignature(question: SignatureQuestion): Promise<SignatureAnswer> {
  const { body, signature, secret, format, others = [] } = question;
  const macs = listMacs(signature, format);
  if (macs.length === 0) return { verdict: 'malformed' };

  const bodies = [...listBodies(body), ...others.map(toOther)];
  const candidates = pairs(bodies, listSecrets(secret, { depth: 2 }));
  let best: readonly Change[] | undefined;
  for (const { body, secret } of candidates) {
    // Pairs come with the fewest changes first: from here on nothing can be simpler.
    const changed = body.changes.length + secret.changes.length;
    if (best !== undefined && changed >= best.length) break;
    const mac = await sign(body.value, { secret: secret.value });
    const match = macs.find(({ value }) => value === mac);
    if (match === undefined) continue;
    const changes = [...body.changes, ...secret.changes, ...match.changes];
    if (best === undefined || changes.length < best.length) best = changes;
  }
  if (best === undefined) return { verdict: 'unexplained', tried: candidates.length * macs.length };
  return best.length === 0 ? { verdict: 'verified' } : { verdict: 'explained', changes: best };
}

function pairs(bodies: readonly Variant<Uint8Array>[], secrets: readonly Variant<Uint8Array>[]) {
  return bodies
    .flatMap((body) => secrets.map((secret) => ({ body, secret })))
    .filter(({ body, secret }) => body.value.length <= THOROUGH_LIMIT_BYTES || secret.changes.length <= 1)
    .sort((a, b) => countChanges(a) - countChanges(b));
}

function countChanges({
  body,
  secret,
}: {
  readonly body: Variant<unknown>;
  readonly secret: Variant<unknown>;
}): number {
  return body.changes.length + secret.changes.length;
}

function toOther({ name, body }: { readonly name: string; readonly body: Uint8Array }): Variant<Uint8Array> {
  return {
    value: body,
    changes: [
      {
        part: 'signature',
        what: `it is that of another body: ${name}`,
        fix: 'Keep each body together with the header that came with it.',
      },
    ],
  };
}
