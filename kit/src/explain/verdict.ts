import type { SignatureEncoding } from 'stablehooks';
import { connectionFailure } from '../io/connection.js';
import { readOutcome } from '../io/delivery.js';
import { explainSignature, type SignatureExplanation } from './explain-signature.js';

/** What the bytes, the signature and the reply of an attempt show. The sentences contain neither secret nor payload. */
export interface Verdict {
  /** Whether the signature matches the bytes and the secret; `null` when the endpoint was removed, and its secret with it. */
  readonly explanation: SignatureExplanation | null;
  /** What happened. */
  readonly what: string;
  /** What to do about it; `null` when nothing is wrong. */
  readonly fix: string | null;
}

/** What the receiver should have verified with. The secret is used here and never leaves. */
interface Expected {
  readonly secret: string;
  readonly encoding: SignatureEncoding;
  readonly signatureHeader: string;
}

/** What of an attempt is judged. */
interface Answered {
  readonly request: { readonly headers: Readonly<Record<string, string>>; readonly body: string };
  /** `null` when there is none. */
  readonly response: { readonly status: number; readonly body: string } | null;
  /** Why there is no response, and the code of that, or `null`. */
  readonly error: string | null;
  readonly errorCode: string | null;
  /** The faults of the sandbox that occurred. */
  readonly faults: readonly string[];
}

/** Judges an attempt: whether its signature was right, and what the answer says about the receiver. */
export async function judgeAttempt(attempt: Answered, expected: Expected | undefined): Promise<Verdict> {
  const { request } = attempt;
  if (expected === undefined) return { explanation: null, ...describeAnswer(attempt, true) };
  const explanation = await explainSignature({
    body: new TextEncoder().encode(request.body),
    signature: request.headers[expected.signatureHeader] ?? '',
    secret: new TextEncoder().encode(expected.secret),
    format: { encoding: expected.encoding, prefix: '' },
  });
  const signature = describeSignature(explanation);
  const answer = describeAnswer(attempt, explanation.verdict === 'verified');
  return { explanation, what: `${signature.what} ${answer.what}`, fix: signature.fix ?? answer.fix };
}

interface Finding {
  readonly what: string;
  readonly fix: string | null;
}

function describeSignature(explanation: SignatureExplanation): Finding {
  switch (explanation.verdict) {
    case 'verified':
      return { what: 'The signature matches these bytes and the secret of the endpoint.', fix: null };
    case 'explained':
      return {
        what: `The signature does not match: ${explanation.changes.map(({ part, what }) => `the ${part}: ${what}`).join('; ')}.`,
        fix: explanation.changes.map(({ fix }) => fix).join(' '),
      };
    case 'malformed':
      return { what: 'The value of the header is no signature.', fix: 'Check the name of the header.' };
    case 'unexplained':
      return {
        what: 'The signature does not match, and no known change explains it: it was made with another secret, or of other content.',
        fix: 'Set both sides to the same secret.',
      };
  }
}

/** What a status says where its reply does not say more. */
const STATUSES: Readonly<Record<number, Finding>> = {
  404: { what: 'Nothing is at this path.', fix: 'Check the path of the endpoint.' },
  405: { what: 'This path accepts no POST.', fix: 'Check the path of the endpoint.' },
  413: { what: 'The body is larger than the endpoint accepts.', fix: 'Raise its maxBodyBytes.' },
};

/** What the codes and outcomes of a stablehooks receiver say. */
const REPLIES: Readonly<Record<string, Finding>> = {
  handled: { what: 'The handler ran to its end.', fix: null },
  duplicate: { what: 'The event had taken effect before, so nothing ran again.', fix: null },
  queued: { what: 'The event is in the queue of the endpoint.', fix: null },
  busy: { what: 'Another attempt at this event was running.', fix: null },
  ignored: { what: 'The endpoint has no handler for this type, so nothing ran.', fix: 'Add a handler.' },
  parked: {
    what: 'The endpoint does not know this type, so nothing ran.',
    fix: 'It runs after a release that knows it redrives.',
  },
  dead: {
    what: 'The endpoint dead-lettered the event.',
    fix: 'See its last error in the inbox, then requeue it.',
  },
  ERR_SIGNATURE_MISSING: {
    what: 'The endpoint found no signature.',
    fix: 'Set signatureHeader of the receiver to the header of this request, and let proxies pass it on.',
  },
  ERR_SIGNATURE_MALFORMED: {
    what: 'The endpoint cannot read the form of the signature.',
    fix: 'Set the same encoding and prefix on both sides.',
  },
  ERR_BODY_UNAVAILABLE: {
    what: 'A body parser before the receiver consumed the bytes.',
    fix: 'Mount the receiver before the parser.',
  },
  ERR_HANDLER_FAILED: { what: 'The handler threw.', fix: 'See the log of the endpoint for its error.' },
  ERR_HANDLER_TIMEOUT: { what: 'The handler did not end in time.', fix: 'See the log of the endpoint.' },
  ERR_PAYLOAD_INVALID: { what: 'The payload does not match its schema.', fix: 'Correct the schema.' },
  ERR_EVENT_NOT_DUE: { what: 'The event failed before and waits for its retry time.', fix: null },
  ERR_INBOX_FAILED: { what: 'The endpoint cannot reach its inbox.', fix: 'See its log.' },
  ERR_QUEUE_FAILED: { what: 'The endpoint cannot reach its queue.', fix: 'See its log.' },
  ERR_CONFIG_INVALID: { what: 'A setting of the receiver is wrong.', fix: 'Its log names the setting.' },
};

function describeAnswer({ response, error, errorCode, faults }: Answered, verified: boolean): Finding {
  if (response === null) {
    if (faults.length > 0 && errorCode === null)
      return {
        what: `There was no answer: ${error ?? 'the connection ended'} (fault ${faults.join(', ')})`,
        fix: null,
      };
    const failure = errorCode === null ? undefined : connectionFailure(errorCode);
    return {
      what: `There was no answer: ${failure?.what ?? error ?? 'the connection ended'}.`,
      fix: failure?.fix ?? null,
    };
  }
  const { status, body } = response;
  const { outcome, code } = readOutcome(body);
  const name = code ?? outcome ?? '';
  if (status === 401 || status === 403) return describeRefusal(name, verified);
  const known = Object.hasOwn(REPLIES, name) ? REPLIES[name] : STATUSES[status];
  if (known !== undefined) return known;
  if (status >= 200 && status < 300) return { what: `The endpoint accepted it (${status}).`, fix: null };
  if (status >= 300 && status < 400)
    return {
      what: `The endpoint redirects (${status}), which deliveries do not follow.`,
      fix: 'Deliver to the URL of the receiver itself.',
    };
  return { what: `The endpoint answered ${status}.`, fix: 'See the log of the endpoint.' };
}

function describeRefusal(name: string, verified: boolean): Finding {
  if (!verified) return { what: 'The endpoint refused it, as it must.', fix: null };
  const known = name === 'ERR_SIGNATURE_MISMATCH' ? undefined : REPLIES[name];
  return (
    known ?? {
      what: 'The endpoint refused it all the same: it has another secret, or it verifies other bytes than these.',
      fix: 'Set both sides to the same secret, and verify the raw bytes before any parser. `stablehooks doctor URL` finds out which.',
    }
  );
}
