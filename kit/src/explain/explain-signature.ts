import { timingSafeEqual } from 'node:crypto';
import { type SignatureFormat, sign } from 'stablehooks';
import { listBodies, listMacs, listSecrets } from './known-changes.js';
import type { Change, Variant } from './variants.js';

/** The signature to explain. */
interface SignatureQuestion {
  readonly body: Uint8Array;
  readonly signature: string;
  readonly secret: Uint8Array;
  readonly format: SignatureFormat;
  /** Bodies of other deliveries, to which the signature may belong. */
  readonly others?: readonly { readonly name: string; readonly body: Uint8Array }[] | undefined;
}

/**
 * Why a signature matches or not.
 *
 * - `verified`: it matches.
 * - `explained`: it matches without these changes, the fewest that were found.
 * - `malformed`: the string is not a signature in any format.
 * - `unexplained`: nothing that was tried matches: another secret, or a body with other content.
 */
export type SignatureExplanation =
  | { readonly verdict: 'verified' }
  | { readonly verdict: 'explained'; readonly changes: readonly Change[] }
  | { readonly verdict: 'malformed' }
  | { readonly verdict: 'unexplained'; readonly tried: number };

/** Larger bodies are tried with one change to the secret only, so that the answer takes seconds at most. */
const MAX_THOROUGH_BYTES = 65_536;

/** Explains a signature by trying known changes. The result contains neither the secret nor the body. */
export async function explainSignature(question: SignatureQuestion): Promise<SignatureExplanation> {
  const { body, signature, secret, format, others = [] } = question;
  const macs = listMacs(signature, format);
  if (macs.length === 0) return { verdict: 'malformed' };

  const candidates = pair([...listBodies(body), ...others.map(toOther)], listSecrets(secret, 2));
  let best: readonly Change[] | undefined;
  for (const { body, secret } of candidates) {
    // Candidates are sorted by the number of changes: the rest cannot be better.
    const count = body.changes.length + secret.changes.length;
    if (best !== undefined && count >= best.length) break;
    const mac = Buffer.from(await sign(body.value, { secret: secret.value }), 'hex');
    const match = macs.find(({ value }) => timingSafeEqual(value, mac));
    if (match === undefined) continue;
    const changes = [...body.changes, ...secret.changes, ...match.changes];
    if (best === undefined || changes.length < best.length) best = changes;
  }
  if (best === undefined) return { verdict: 'unexplained', tried: candidates.length * macs.length };
  return best.length === 0 ? { verdict: 'verified' } : { verdict: 'explained', changes: best };
}

interface Candidate {
  readonly body: Variant<Uint8Array>;
  readonly secret: Variant<Uint8Array>;
}

/** All bodies with all secrets, those with the fewest changes first. */
function pair(
  bodies: readonly Variant<Uint8Array>[],
  secrets: readonly Variant<Uint8Array>[],
): readonly Candidate[] {
  const count = ({ body, secret }: Candidate) => body.changes.length + secret.changes.length;
  return bodies
    .flatMap((body) => secrets.map((secret) => ({ body, secret })))
    .filter(({ body, secret }) => body.value.length <= MAX_THOROUGH_BYTES || secret.changes.length <= 1)
    .sort((a, b) => count(a) - count(b));
}

function toOther({ name, body }: { readonly name: string; readonly body: Uint8Array }): Variant<Uint8Array> {
  return {
    value: body,
    changes: [
      {
        part: 'signature',
        what: `it belongs to another body: ${name}`,
        fix: 'Keep each body together with the header that came with it.',
      },
    ],
  };
}
