import {
  type EndpointAnswer,
  isDelivered,
  isSignatureRefused,
  isWithoutEffect,
  type LOSSES,
} from '../io/answer.js';
import { connectionFailure } from './connection.js';

/** A fact and its fix, in sentences, without secrets or payloads. */
export interface Finding {
  readonly what: string;
  /** `null` when nothing is wrong. */
  readonly fix: string | null;
}

const REPLIES: Readonly<Record<string, Finding>> = {
  handled: { what: 'The handler ran to its end.', fix: null },
  duplicate: {
    what: 'The event was done before, so nothing ran: its handler had run, or no handler existed when it came.',
    fix: null,
  },
  queued: {
    what: 'The event is stored, and runs later: after the answer, in a worker, or in a process with a handler for its type.',
    fix: null,
  },
  ignored: { what: 'The endpoint has no handler for this type, so nothing ran.', fix: 'Add a handler.' },
  parked: {
    what: 'The endpoint did not know this type when the event came, so nothing ran.',
    fix: 'The event runs once a receiver that knows the type and has a handler for it redrives.',
  },
  dead: {
    what: 'The endpoint dead-lettered the event.',
    fix: 'Read its last error (`stablehooks inbox show`), correct the cause, and requeue it (`stablehooks inbox requeue`).',
  },
  ERR_SIGNATURE_MISSING: {
    what: 'The endpoint found no signature.',
    fix: "Set the receiver's `signature: { header }` to the header that the service sends, and let proxies pass it on.",
  },
  ERR_SIGNATURE_MALFORMED: {
    what: "The endpoint does not recognise the signature's format.",
    fix: "Set the receiver's `signature: { encoding, prefix }` to the service's format.",
  },
  ERR_SIGNATURE_MISMATCH: {
    what: 'The endpoint uses a different secret, has none for this path, or verifies bytes other than the delivered ones.',
    fix: 'Set both sides to the same secret, and verify the raw bytes. `stablehooks doctor URL` finds out which it is.',
  },
  ERR_SECRET_UNKNOWN: {
    what: "The endpoint's secret function knows no secret for this request.",
    fix: 'Check the path, query and headers that the function reads.',
  },
  ERR_METHOD_NOT_ALLOWED: {
    what: 'The request reached the receiver with another method than POST.',
    fix: 'Check for a redirect or a proxy in front of the receiver.',
  },
  ERR_BODY_UNAVAILABLE: {
    what: 'A body parser before the receiver consumed the bytes.',
    fix: 'Mount the receiver before the parser.',
  },
  ERR_BODY_ENCODED: {
    what: 'The body is compressed before it reaches the receiver.',
    fix: 'Turn the compression off, for example in a proxy.',
  },
  ERR_BODY_TOO_LARGE: {
    what: "The body is larger than the receiver's maxBodyBytes.",
    fix: 'Raise maxBodyBytes if the service sends such bodies.',
  },
  ERR_BODY_INCOMPLETE: {
    what: 'The body did not arrive with the length of its content-length.',
    fix: 'Check for a proxy in front of the receiver that changes the body or cuts it off.',
  },
  ERR_BODY_TIMEOUT: {
    what: 'The body did not arrive in time.',
    fix: 'Check for a proxy in front of the receiver that holds the body back.',
  },
  ERR_EVENT_MALFORMED: {
    what: 'The body is signed, but is not an event.',
    fix: 'An event is a JSON object with the strings id, type and created_at, and the object payload.',
  },
  ERR_PAYLOAD_INVALID: {
    what: "The payload does not match the receiver's schema.",
    fix: 'Correct the schema. The event stays in the inbox and runs again.',
  },
  ERR_HANDLER_FAILED: {
    what: 'The handler threw.',
    fix: "The endpoint's log shows the error. Correct the handler; the event runs again.",
  },
  ERR_HANDLER_TIMEOUT: {
    what: 'The handler did not end in time.',
    fix: 'Make it faster, raise handlerTimeoutMs, or enqueue the work.',
  },
  ERR_HANDLER_LATER: {
    what: "The handler asked for a later attempt, and the endpoint's inbox is not durable.",
    fix: "Send it again after the answer's Retry-After, or give the endpoint a durable inbox, which runs it by itself.",
  },
  ERR_EVENT_BUSY: { what: 'Another attempt at this event was running.', fix: null },
  ERR_EVENT_NOT_DUE: {
    what: 'The event failed before and waits for its retry time, so nothing ran.',
    fix: "Send it again after the answer's Retry-After. To run it now, first requeue it in the endpoint's inbox: `stablehooks inbox requeue`, or Requeue in its inspector.",
  },
  ERR_KEY_BUSY: {
    what: 'Another event of the same ordering key was running. This one is stored, and the endpoint runs it in turn.',
    fix: null,
  },
  ERR_RECEIVER_BUSY: {
    what: 'The endpoint was at its limit of running handlers (maxConcurrency).',
    fix: "Send it again after the answer's Retry-After, or raise maxConcurrency.",
  },
  ERR_LEASE_LOST: {
    what: 'The handler ran longer than leaseMs, or could not begin in that time, so another process could run the event.',
    fix: "Raise leaseMs, or make the handler faster. See the endpoint's log.",
  },
  ERR_RECEIVER_CLOSED: { what: 'The endpoint is stopping.', fix: 'Start it again.' },
  ERR_INBOX_FAILED: { what: 'The endpoint cannot reach its inbox.', fix: 'See its log.' },
  ERR_QUEUE_FAILED: { what: 'The endpoint cannot reach its queue.', fix: 'See its log.' },
  ERR_SECRET_UNAVAILABLE: {
    what: "The endpoint's secret function failed or took too long.",
    fix: 'See its log.',
  },
  ERR_CONFIG_INVALID: {
    what: 'A setting of the receiver is wrong, and its log names it.',
    fix: 'If the secret comes from a function or a file, it may end with a newline: use .trim().',
  },
};

/** The finding for the code or the outcome of a reply; `undefined` for unknown names. */
export function findingOf(name: string | undefined): Finding | undefined {
  return name !== undefined && Object.hasOwn(REPLIES, name) ? REPLIES[name] : undefined;
}

type Reply = EndpointAnswer & { readonly kind: 'reply' };

export function explainAnswer(answer: EndpointAnswer): Finding {
  return answer.kind === 'reply' ? explainReply(answer) : explainSilence(answer);
}

const REFUSED: Finding = {
  what: 'Its reply does not say why: the endpoint uses a different secret, reads another header, does not verify the raw bytes, or asks for a login.',
  fix: 'Set both sides to the same secret, and verify the raw bytes. `stablehooks doctor URL` finds out which it is.',
};

/** The meaning of a status if the reply contains no more. */
const STATUSES: Readonly<Record<number, Finding>> = {
  404: { what: 'Nothing is at this path.', fix: 'Check the path, and that the receiver is mounted there.' },
  405: { what: 'This path accepts no POST.', fix: 'Check the path, and that the receiver is mounted there.' },
  410: { what: 'Nothing is at this path any more.', fix: 'Check the path of the endpoint.' },
  413: {
    what: 'The body is larger than the endpoint, or a proxy in front of it, accepts.',
    fix: "Raise the limit of the proxy or the parser, or the receiver's maxBodyBytes.",
  },
  415: {
    what: 'The endpoint does not accept this content type or encoding.',
    fix: 'Accept application/json.',
  },
  429: { what: 'The endpoint reported too many requests.', fix: null },
};

function explainReply(answer: Reply): Finding {
  const { status, code, outcome } = answer;
  // A receiver answers with an outcome under 2xx, and with a code under any other status.
  const known = findingOf(isDelivered(answer) ? outcome : code) ?? STATUSES[status];
  if (known !== undefined) return known;
  if (isWithoutEffect(answer)) return explainUnshown(answer);
  if (isDelivered(answer)) return { what: `The endpoint accepted it (${status}).`, fix: null };
  if (isSignatureRefused(answer)) return REFUSED;
  if (status >= 300 && status < 400) {
    return {
      what: `The endpoint redirects (${status}), and deliveries do not follow redirects.`,
      fix: 'Deliver to the URL of the receiver itself, or answer there without a redirect, or a login.',
    };
  }
  return { what: `The endpoint answered ${status}.`, fix: "The endpoint's log may say why." };
}

/** A 2xx that does not show what became of the event. */
function explainUnshown({ outcome, code, isPage, isCut }: Reply): Finding {
  if (isCut) {
    return {
      what: 'The endpoint answered 2xx with more than 64 KiB, so the outcome is not shown.',
      fix: 'Answer with a short body, or with none.',
    };
  }
  if (isPage) {
    return {
      what: 'The endpoint answered with a page.',
      fix: 'Check the path, and whether a log-in stands in front of the endpoint.',
    };
  }
  return {
    what: `The endpoint answered 2xx with a reply that reports ${code ?? outcome}.`,
    fix: 'If the event did not take effect, answer 5xx: after a 2xx the service does not send it again.',
  };
}

function explainSilence(answer: Exclude<EndpointAnswer, Reply>): Finding {
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
        fix: failure?.fix ?? "See the attempt's error and the endpoint's log.",
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
