import { type SignatureFormat, sign } from 'stablehooks';
import {
  type EndpointAnswer,
  explainDelivered,
  faultOf,
  isDelivered,
  isSignatureRefused,
  isWithoutEffect,
  type LOSSES,
} from '../io/answer.js';
import { connectionFailure } from './connection.js';
import { explainSignature } from './explain-signature.js';
import { type Finding, findingOf } from './replies.js';

/** The diagnosis of an attempt from its bytes, signature and answer. It contains neither secret nor payload. */
export interface Verdict {
  /** The fact. */
  readonly what: string;
  /** The fix; `null` when nothing is wrong. */
  readonly fix: string | null;
}

/** The judged parts of an attempt. */
interface JudgedAttempt {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly answer: EndpointAnswer;
}

/** The secret and format with which the endpoint verifies. The secret does not leave this module. */
export interface Signing extends SignatureFormat {
  readonly secret: string;
  readonly signatureHeader: string;
}

/**
 * Judges an attempt that this process, or an earlier run of it, signed: whether its signature was right, and what the
 * answer shows about the endpoint.
 *
 * @param signing - `undefined` when it is unknown: then the signature is not judged.
 */
export async function judgeAttempt(attempt: JudgedAttempt, signing: Signing | undefined): Promise<Verdict> {
  const { answer } = attempt;
  if (answer.kind !== 'reply') return describeSilence(answer);
  if (signing === undefined) return describeReply(answer);
  const fault = faultOf(answer);
  const isRight = await isSignedWith(attempt, signing);
  if (fault === undefined && !isRight) return describeEarlierSecret(answer);
  if (fault === undefined || isRight) {
    const reply = isSignatureRefused(answer) ? describeRefusal(answer) : describeReply(answer);
    return { what: `The signature is right. ${reply.what}`, fix: reply.fix };
  }
  const mismatch = await describeFault(fault, attempt, signing);
  if (isDelivered(answer)) {
    return {
      what: `${mismatch} The endpoint accepted it all the same.`,
      fix: 'The endpoint must verify each delivery over the bytes that it received.',
    };
  }
  if (isSignatureRefused(answer)) {
    return { what: `${mismatch} The endpoint refused it, as it must.`, fix: null };
  }
  const reply = describeReply(answer);
  return { what: `${mismatch} ${reply.what}`, fix: reply.fix };
}

type Reply = EndpointAnswer & { readonly kind: 'reply' };

async function isSignedWith(
  { headers, body }: JudgedAttempt,
  { secret, signatureHeader, encoding, prefix = '' }: Signing,
): Promise<boolean> {
  return headers[signatureHeader] === (await sign(body, { secret, encoding, prefix }));
}

/** Describes what a fault of a sandbox did to the signature. It needs no fix. */
async function describeFault(
  fault: string,
  { headers, body }: JudgedAttempt,
  { secret, signatureHeader, encoding, prefix }: Signing,
): Promise<string> {
  if (fault === 'corruptSignature') return 'The sandbox made the signature wrong (fault corruptSignature).';
  const explanation = await explainSignature({
    ...{ body, signature: headers[signatureHeader] ?? '', secret: new TextEncoder().encode(secret) },
    format: { encoding, prefix },
    thorough: false,
  });
  // After a change of the secret, no known change explains it.
  if (explanation.verdict !== 'explained') return `The sandbox changed the signed body (fault ${fault}).`;
  const changes = explanation.changes.map(({ part, what }) => `the ${part}: ${what}`).join('; and ');
  return `The signature does not match because of ${changes} (fault ${fault}).`;
}

/**
 * Without a fault, the signature was right when the delivery was sent, so the secret has changed since. Neither side is at
 * fault.
 */
function describeEarlierSecret(answer: Reply): Finding {
  const what = 'The delivery was signed with an earlier secret: the secret has changed since.';
  if (isSignatureRefused(answer)) return { what: `${what} The endpoint refused it.`, fix: null };
  const reply = describeReply(answer);
  return { what: `${what} ${reply.what}`, fix: reply.fix };
}

function describeSilence(answer: Exclude<EndpointAnswer, Reply>): Finding {
  switch (answer.kind) {
    case 'silence':
      return {
        what: `The endpoint did not answer within ${answer.elapsedMs} ms.`,
        fix: 'If its handler is slow, enqueue the work durably and answer 202. If it never answers, a body parser before the receiver may have consumed the body: mount the receiver before the parser.',
      };
    case 'lost':
      return { what: WHY_LOST[answer.fault], fix: null };
    case 'unreachable': {
      const failure = connectionFailure(answer.reason);
      return {
        what: `There was no answer${failure === undefined ? '' : `: ${failure.what}`}.`,
        fix: failure?.fix ?? 'See the error of the attempt and the log of the endpoint.',
      };
    }
  }
}

/** The effects of the faults of a sandbox that prevent an answer. */
const WHY_LOST: Readonly<Record<(typeof LOSSES)[number], string>> = {
  drop: 'The sandbox dropped the delivery before it arrived (fault drop).',
  cut: 'The sandbox cut the connection halfway through the body (fault cut), so no handler ran.',
  reset: 'The sandbox reset the connection before the answer (fault reset), so the handler may have run.',
};

/** The meaning of a status if the reply contains no more. */
const STATUSES: Readonly<Record<number, Finding>> = {
  404: { what: 'Nothing is at this path.', fix: 'Check the path, and that the receiver is mounted there.' },
  405: { what: 'This path accepts no POST.', fix: 'Check the path, and that the receiver is mounted there.' },
  410: { what: 'Nothing is at this path any more.', fix: 'Check the path of the endpoint.' },
  413: {
    what: 'The body is larger than the endpoint, or a proxy in front of it, accepts.',
    fix: 'Raise the limit of the proxy or the parser, or maxBodyBytes of the receiver.',
  },
  415: {
    what: 'The endpoint does not accept this content type or encoding.',
    fix: 'Accept application/json.',
  },
  429: { what: 'The endpoint reported too many requests.', fix: null },
};

function describeReply(answer: Reply): Finding {
  const { status, code, outcome } = answer;
  // A receiver answers with an outcome under 2xx, and with a code under any other status.
  const known = findingOf(isDelivered(answer) ? outcome : code) ?? STATUSES[status];
  if (known !== undefined) return known;
  if (isWithoutEffect(answer)) return { what: `The endpoint ${explainDelivered(answer)}`, fix: null };
  if (isDelivered(answer)) return { what: `The endpoint accepted it (${status}).`, fix: null };
  if (status >= 300 && status < 400) {
    return {
      what: `The endpoint redirects (${status}), and deliveries do not follow redirects.`,
      fix: 'Deliver to the URL of the receiver itself, or answer there without a redirect, or a login.',
    };
  }
  return { what: `The endpoint answered ${status}.`, fix: 'The log of the endpoint may say why.' };
}

/** The signature is right, and the endpoint reports that it is not. */
function describeRefusal({ status, code }: Reply): Finding {
  const known = findingOf(code);
  if (known !== undefined)
    return { what: `The endpoint refused it all the same. ${known.what}`, fix: known.fix };
  return {
    what: `The endpoint refused it all the same (${status}), and its reply does not say why: it has another secret, reads another header, does not verify the raw bytes, or asks for a login.`,
    fix: 'Set both sides to the same secret, and verify the raw bytes. `stablehooks doctor URL` finds out which it is.',
  };
}
