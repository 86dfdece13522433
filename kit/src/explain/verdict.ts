import { type SignatureFormat, sign } from 'stablehooks';
import { type EndpointAnswer, faultOf, isDelivered, isSignatureRefused } from '../io/answer.js';
import { explainSignature } from './explain-signature.js';
import { explainAnswer, type Finding } from './replies.js';

interface JudgedAttempt {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly answer: EndpointAnswer;
}

/** The secret must not leave this module. */
export interface Signing extends SignatureFormat {
  readonly secret: string;
  readonly signatureHeader: string;
}

export async function judgeAttempt(attempt: JudgedAttempt, signing: Signing | undefined): Promise<Finding> {
  const { answer } = attempt;
  if (answer.kind !== 'reply' || signing === undefined) return explainAnswer(answer);
  const fault = faultOf(answer);
  const isRight = await isSignedWith(attempt, signing);
  if (fault === undefined && !isRight) return describeEarlierSecret(answer);
  if (fault === undefined || isRight) {
    const reply = explainAnswer(answer);
    const refused = isSignatureRefused(answer) ? 'The endpoint refused the delivery anyway. ' : '';
    return { what: `The signature is correct. ${refused}${reply.what}`, fix: reply.fix };
  }
  const mismatch = await describeFault(fault, attempt, signing);
  if (isDelivered(answer)) {
    return {
      what: `${mismatch} The endpoint accepted the delivery anyway.`,
      fix: 'The endpoint must verify the signature of each delivery over the exact bytes it received.',
    };
  }
  if (isSignatureRefused(answer)) {
    return { what: `${mismatch} The endpoint correctly refused the delivery.`, fix: null };
  }
  const reply = explainAnswer(answer);
  return { what: `${mismatch} ${reply.what}`, fix: reply.fix };
}

type Reply = EndpointAnswer & { readonly kind: 'reply' };

async function isSignedWith(
  { headers, body }: JudgedAttempt,
  { secret, signatureHeader, encoding, prefix = '' }: Signing,
): Promise<boolean> {
  return headers[signatureHeader] === (await sign(body, { secret, encoding, prefix }));
}

async function describeFault(
  fault: string,
  { headers, body }: JudgedAttempt,
  { secret, signatureHeader, encoding, prefix }: Signing,
): Promise<string> {
  if (fault === 'corruptSignature') return 'The sandbox sent an invalid signature (fault corruptSignature).';
  const explanation = await explainSignature({
    ...{ body, signature: headers[signatureHeader] ?? '', secret: new TextEncoder().encode(secret) },
    format: { encoding, prefix },
    thorough: false,
  });
  // If the secret has been replaced in the meantime, no known change explains the signature.
  if (explanation.verdict !== 'explained') return `The sandbox changed the signed body (fault ${fault}).`;
  const changes = explanation.changes.map(({ part, what }) => `the ${part}: ${what}`).join('; and ');
  return `The signature does not match because of ${changes} (fault ${fault}).`;
}

/** The signature was correct when it was sent, but the secret has changed since then, so neither side is at fault. */
function describeEarlierSecret(answer: Reply): Finding {
  const what = 'The delivery was signed with an earlier secret. The secret has changed since then.';
  if (isSignatureRefused(answer)) return { what: `${what} The endpoint refused the delivery.`, fix: null };
  const reply = explainAnswer(answer);
  return { what: `${what} ${reply.what}`, fix: reply.fix };
}
