import { timingSafeEqual } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type SignatureFormat, sign } from 'stablehooks';
import { BODY_CHANGE_COUNT, eachChangedBody, listBodies, listMacs, listSecrets } from './known-changes.js';
import type { Change, Variant } from './variants.js';

interface SignatureQuestion {
  readonly body: Uint8Array;
  readonly signature: string;
  readonly secret: Uint8Array;
  readonly format: SignatureFormat;
  readonly others?: readonly { readonly name: string; readonly body: Uint8Array }[] | undefined;
  /** If `false`, bodies over 64 KiB are tried with only one change in total, so that other work can go on. @default true */
  readonly thorough?: boolean | undefined;
}

/** `explained` has the shortest list of changes that was found. `unexplained` means a different secret or body content. */
export type SignatureExplanation =
  | { readonly verdict: 'verified' }
  | { readonly verdict: 'explained'; readonly changes: readonly Change[] }
  | { readonly verdict: 'malformed' }
  | { readonly verdict: 'unexplained'; readonly tried: number };

/** Larger bodies are tried with at most one change to the secret. */
const MAX_THOROUGH_BYTES = 65_536;

/** Larger bodies are tried with only one change in total, for a few seconds at most: hashing 16 MB takes 60 ms. */
const MAX_PAIRED_BYTES = 1_048_576;

/** After this long, the process yields to other work. */
const TURN_MS = 10;

/** The result contains neither the secret nor the body. */
export async function explainSignature(
  question: SignatureQuestion,
  onTried: (tried: number, total: number) => void = () => undefined,
): Promise<SignatureExplanation> {
  const { body, signature, secret, format, others = [], thorough = true } = question;
  const macs = listMacs(signature, format);
  if (macs.length === 0) return { verdict: 'malformed' };
  // The given body is tried first, because listing candidates takes longer for a large body.
  const own = Buffer.from(await sign(body, { secret }), 'hex');
  if (macs.some(({ value, changes }) => changes.length === 0 && timingSafeEqual(value, own))) {
    return { verdict: 'verified' };
  }

  const maxPairedBytes = thorough ? MAX_PAIRED_BYTES : MAX_THOROUGH_BYTES;
  const { candidates, total } = listCandidates(body, secret, others.map(toOther), maxPairedBytes);
  let tried = 0;
  let turnEnds = performance.now() + TURN_MS;
  let best: readonly Change[] | undefined;
  for (const candidate of candidates) {
    const { body: signed, secret: key } = candidate;
    const mac = Buffer.from(await sign(signed.value, { secret: key.value }), 'hex');
    tried += 1;
    onTried(tried, total);
    if (performance.now() > turnEnds) {
      await nextTurn();
      turnEnds = performance.now() + TURN_MS;
    }
    // Candidates are sorted by their number of changes, so the remaining candidates cannot be better.
    const count = countChanges(candidate);
    if (best !== undefined && count >= best.length) break;
    const match = macs.find(({ value }) => timingSafeEqual(value, mac));
    if (match === undefined) continue;
    const changes = [...candidate.body.changes, ...candidate.secret.changes, ...match.changes];
    if (best === undefined || changes.length < best.length) best = changes;
  }
  if (best === undefined) return { verdict: 'unexplained', tried: tried * macs.length };
  return best.length === 0 ? { verdict: 'verified' } : { verdict: 'explained', changes: best };
}

interface Candidate {
  readonly body: Variant<Uint8Array>;
  readonly secret: Variant<Uint8Array>;
}

function countChanges({ body, secret }: Candidate): number {
  return body.changes.length + secret.changes.length;
}

/** The total is approximate. Candidates with the fewest changes come first. */
function listCandidates(
  body: Uint8Array,
  secret: Uint8Array,
  others: readonly Variant<Uint8Array>[],
  maxPairedBytes: number,
) {
  if (body.length > maxPairedBytes) {
    const secrets = listSecrets(secret, 1);
    const total = secrets.length + others.length + BODY_CHANGE_COUNT;
    return { candidates: eachWithOneChange(body, secrets, others), total };
  }
  const candidates = pair([...listBodies(body), ...others], listSecrets(secret, 2));
  return { candidates, total: candidates.length };
}

function pair(
  bodies: readonly Variant<Uint8Array>[],
  secrets: readonly Variant<Uint8Array>[],
): readonly Candidate[] {
  return bodies
    .flatMap((body) => secrets.map((secret) => ({ body, secret })))
    .filter(
      ({ body, secret }) =>
        (body.value.length <= MAX_THOROUGH_BYTES || secret.changes.length <= 1) &&
        (body.value.length <= MAX_PAIRED_BYTES || countChanges({ body, secret }) <= 1),
    )
    .sort((a, b) => countChanges(a) - countChanges(b));
}

function* eachWithOneChange(
  body: Uint8Array,
  [secret, ...secrets]: readonly Variant<Uint8Array>[],
  others: readonly Variant<Uint8Array>[],
): Generator<Candidate, void> {
  if (secret === undefined) return;
  const own = { value: body, changes: [] };
  yield { body: own, secret };
  for (const other of others) yield { body: other, secret };
  for (const changed of eachChangedBody(body)) yield { body: changed, secret };
  for (const changed of secrets) yield { body: own, secret: changed };
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
