import {
  type EndpointAnswer,
  isDelivered,
  isSignatureRefused,
  isWithoutEffect,
  type LOSSES,
} from '../io/answer.js';
import { connectionFailure } from './connection.js';

/** What happened and how to fix it, in sentences that contain no secrets or payloads. */
export interface Finding {
  readonly what: string;
  /** How to fix the problem. `null` if nothing is wrong. */
  readonly fix: string | null;
}

const REPLIES: Readonly<Record<string, Finding>> = {
  handled: { what: 'The handler completed.', fix: null },
  duplicate: {
    what: 'The event was already done, so nothing ran. Its handler ran earlier, or it had no handler when it arrived.',
    fix: null,
  },
  queued: {
    what: 'The event is stored and runs later: after the response, in a worker, or in a process with a handler for its type.',
    fix: null,
  },
  ignored: { what: 'The endpoint has no handler for this type, so nothing ran.', fix: 'Add a handler.' },
  parked: {
    what: 'The endpoint did not know this type when the event arrived, so nothing ran.',
    fix: 'The event runs at the next redrive of a receiver that knows the type and has a handler for it.',
  },
  dead: {
    what: 'The endpoint dead-lettered the event.',
    fix: 'Read its last error (`stablehooks inbox show`), correct the cause, and requeue it (`stablehooks inbox requeue`).',
  },
  ERR_SIGNATURE_MISSING: {
    what: 'The endpoint found no signature.',
    fix: "Set the receiver's `signature: { header }` to the header that the service sends, and make sure that proxies forward it.",
  },
  ERR_SIGNATURE_MALFORMED: {
    what: 'The endpoint does not recognise the format of the signature.',
    fix: "Set the receiver's `signature: { encoding, prefix }` to the format that the service uses.",
  },
  ERR_SIGNATURE_MISMATCH: {
    what: 'The endpoint uses a different secret, has no secret for this path, or does not verify the bytes that were delivered.',
    fix: 'Set both sides to the same secret, and verify the raw bytes. Run `stablehooks doctor URL` to find the cause.',
  },
  ERR_SECRET_UNKNOWN: {
    what: "The endpoint's secret function returned no secret for this request.",
    fix: 'Check the path, query and headers that the function reads.',
  },
  ERR_METHOD_NOT_ALLOWED: {
    what: 'The request reached the receiver with a method other than POST.',
    fix: 'Check for a redirect or a proxy in front of the receiver.',
  },
  ERR_BODY_UNAVAILABLE: {
    what: 'A body parser consumed the body before the receiver could read it.',
    fix: 'Mount the receiver before the parser.',
  },
  ERR_BODY_ENCODED: {
    what: 'The body is compressed before it reaches the receiver.',
    fix: 'Turn off compression, for example in a proxy.',
  },
  ERR_BODY_TOO_LARGE: {
    what: "The body is larger than the receiver's maxBodyBytes.",
    fix: 'Raise maxBodyBytes if the service sends such bodies.',
  },
  ERR_BODY_INCOMPLETE: {
    what: 'The length of the body does not match its content-length.',
    fix: 'Check for a proxy in front of the receiver that changes or truncates the body.',
  },
  ERR_BODY_TIMEOUT: {
    what: 'The body did not arrive in time.',
    fix: 'Check for a proxy in front of the receiver that delays the body.',
  },
  ERR_EVENT_MALFORMED: {
    what: 'The body has a valid signature, but is not an event.',
    fix: 'An event is a JSON object with the strings id, type and created_at, and the object payload.',
  },
  ERR_PAYLOAD_INVALID: {
    what: "The payload does not match the receiver's schema.",
    fix: 'Correct the schema. The event stays in the inbox and runs again.',
  },
  ERR_HANDLER_FAILED: {
    what: 'The handler threw an error.',
    fix: "See the error in the endpoint's log, and correct the handler. The event runs again.",
  },
  ERR_HANDLER_TIMEOUT: {
    what: 'The handler did not finish in time.',
    fix: 'Make the handler faster, raise handlerTimeoutMs, or enqueue the work.',
  },
  ERR_HANDLER_LATER: {
    what: "The handler asked for a later attempt, but the endpoint's inbox is not durable.",
    fix: 'Send the event again after the time in Retry-After, or give the endpoint a durable inbox, so that it retries the event itself.',
  },
  ERR_EVENT_BUSY: { what: 'Another attempt at this event was running.', fix: null },
  ERR_EVENT_NOT_DUE: {
    what: 'The event failed earlier and is waiting for its retry time, so nothing ran.',
    fix: "Send the event again after the time in Retry-After. To run it now, first requeue it in the endpoint's inbox, with `stablehooks inbox requeue` or with Requeue in the inspector.",
  },
  ERR_KEY_BUSY: {
    what: 'Another event with the same ordering key was running. This event is stored, and the endpoint runs it afterwards.',
    fix: null,
  },
  ERR_RECEIVER_BUSY: {
    what: 'The endpoint was already running as many handlers as maxConcurrency allows.',
    fix: 'Send the event again after the time in Retry-After, or raise maxConcurrency.',
  },
  ERR_LEASE_LOST: {
    what: 'The handler ran longer than leaseMs, or could not start in that time, so another process could run the event.',
    fix: "Raise leaseMs, or make the handler faster. See the endpoint's log.",
  },
  ERR_RECEIVER_CLOSED: { what: 'The endpoint is shutting down.', fix: 'Start it again.' },
  ERR_INBOX_FAILED: { what: 'The endpoint cannot reach its inbox.', fix: "See the endpoint's log." },
  ERR_QUEUE_FAILED: { what: 'The endpoint cannot reach its queue.', fix: "See the endpoint's log." },
  ERR_SECRET_UNAVAILABLE: {
    what: "The endpoint's secret function failed or took too long.",
    fix: "See the endpoint's log.",
  },
  ERR_CONFIG_INVALID: {
    what: "A setting of the receiver is wrong. The endpoint's log names the setting.",
    fix: 'If the secret comes from a function or a file, it may end with a newline: use .trim().',
  },
};

export function findingOf(name: string | undefined): Finding | undefined {
  return name !== undefined && Object.hasOwn(REPLIES, name) ? REPLIES[name] : undefined;
}

type Reply = EndpointAnswer & { readonly kind: 'reply' };

export function explainAnswer(answer: EndpointAnswer): Finding {
  return answer.kind === 'reply' ? explainReply(answer) : explainSilence(answer);
}

const REFUSED: Finding = {
  what: 'The response does not say why. The endpoint may use a different secret, read a different header, not verify the raw bytes, or require a login.',
  fix: 'Set both sides to the same secret, and verify the raw bytes. Run `stablehooks doctor URL` to find the cause.',
};

/** Used only if the response says nothing more. */
const STATUSES: Readonly<Record<number, Finding>> = {
  404: {
    what: 'There is nothing at this path.',
    fix: 'Check the path, and check that the receiver is mounted there.',
  },
  405: {
    what: 'This path does not accept POST.',
    fix: 'Check the path, and check that the receiver is mounted there.',
  },
  410: { what: 'There is nothing at this path any more.', fix: 'Check the path of the endpoint.' },
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
  // A receiver returns an outcome with a 2xx, and a code with any other status.
  const known = findingOf(isDelivered(answer) ? outcome : code) ?? STATUSES[status];
  if (known !== undefined) return known;
  if (isWithoutEffect(answer)) return explainUnshown(answer);
  if (isDelivered(answer)) return { what: `The endpoint accepted the event (${status}).`, fix: null };
  if (isSignatureRefused(answer)) return REFUSED;
  if (status >= 300 && status < 400) {
    return {
      what: `The endpoint redirects (${status}), but deliveries do not follow redirects.`,
      fix: 'Deliver to the URL of the receiver itself, or respond at this URL without a redirect or a login.',
    };
  }
  return { what: `The endpoint responded with ${status}.`, fix: "The endpoint's log may say why." };
}

function explainUnshown({ outcome, code, isPage, isCut }: Reply): Finding {
  if (isCut) {
    return {
      what: 'The endpoint returned a 2xx with more than 64 KiB, so the outcome is not known.',
      fix: 'Return a short body, or no body.',
    };
  }
  if (isPage) {
    return {
      what: 'The endpoint responded with an HTML page.',
      fix: 'Check the path, and check whether the endpoint is behind a login.',
    };
  }
  return {
    what: `The endpoint returned a 2xx, but the response reports ${code ?? outcome}.`,
    fix: 'If the event did not take effect, return a 5xx. After a 2xx, the service does not send the event again.',
  };
}

function explainSilence(answer: Exclude<EndpointAnswer, Reply>): Finding {
  switch (answer.kind) {
    case 'silence':
      return {
        what: `The endpoint did not respond within ${answer.elapsedMs} ms.`,
        fix: 'If the handler is slow, enqueue the work durably and return 202. If the endpoint never responds, a body parser may have consumed the body before the receiver could read it. In that case, mount the receiver before the parser.',
      };
    case 'lost':
      return { what: WHY_LOST[answer.fault], fix: null };
    case 'unreachable': {
      const failure = connectionFailure(answer.reason);
      return {
        what: `There was no response${failure === undefined ? '' : `: ${failure.what}`}.`,
        fix: failure?.fix ?? "See the attempt's error and the endpoint's log.",
      };
    }
  }
}

const WHY_LOST: Readonly<Record<(typeof LOSSES)[number], string>> = {
  drop: 'The sandbox dropped the delivery before it arrived (fault drop).',
  cut: 'The sandbox cut the connection halfway through the body (fault cut), so no handler ran.',
  reset: 'The sandbox reset the connection before the response (fault reset), so the handler may have run.',
};
