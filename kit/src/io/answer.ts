/** How an endpoint answered a delivery, and what the answer shows. */
import { connectionFailure } from '../explain/connection.js';

/** Faults of a sandbox that prevent an answer. */
export const LOSSES = ['drop', 'cut', 'reset'] as const;

/**
 * How an endpoint answered.
 *
 * - `reply`: with a status; `outcome` and `code` come from the reply of a stablehooks receiver.
 * - `silence`: not within the time limit.
 * - `unreachable`: there was no connection, or it broke; `reason` is the system's code.
 * - `lost`: a sandbox lost the delivery, or the answer if `fault` is `reset`. `fault` is the fault that occurred.
 */
export type EndpointAnswer = { readonly elapsedMs: number } & (
  | (ReplyReport & {
      readonly kind: 'reply';
      readonly status: number;
      /** The unchanged target of a redirect. */
      readonly location?: string | undefined;
      /** The fault of a sandbox that made the signature wrong. */
      readonly fault?: string | undefined;
    })
  | { readonly kind: 'silence' }
  | { readonly kind: 'unreachable'; readonly reason: string }
  | { readonly kind: 'lost'; readonly fault: (typeof LOSSES)[number] }
);

/** The report in a reply, as text; `undefined` for replies without one. */
export interface ReplyReport {
  readonly outcome: string | undefined;
  readonly code: string | undefined;
  /** Whether the reply is a page for people (HTML). @default false */
  readonly isPage?: true;
  /** Whether the reply is longer than 65,536 bytes, so its outcome is not known. @default false */
  readonly isCut?: true;
}

export const MAX_REPLY_BYTES = 65_536;

/** Reads the report of a reply. At least one byte more than {@link MAX_REPLY_BYTES} shows that it was truncated. */
export function readReport(reply: Uint8Array, contentType = ''): ReplyReport {
  const unknown = { outcome: undefined, code: undefined };
  const text = new TextDecoder().decode(reply);
  if (/^\s*</.test(text) || /html/i.test(contentType)) return { ...unknown, isPage: true };
  if (reply.length > MAX_REPLY_BYTES) return { ...unknown, isCut: true };
  try {
    const json: unknown = JSON.parse(text);
    const reply: Reply = Object(json);
    const textOf = (name: string) => (Object.hasOwn(reply, name) ? String(reply[name]) : undefined);
    const failure = [json].flat().map((part) => failureIn(Object(part)));
    return { outcome: textOf('outcome'), code: textOf('code') ?? failure.find(Boolean) };
  } catch {
    return unknown;
  }
}

type Reply = Readonly<Record<string, unknown>>;

/** How the reply of a receiver that is not built with stablehooks reports a failure; its text may hold a payload. */
function failureIn(reply: Reply): string | undefined {
  const isSet = (name: string) =>
    Boolean(reply[name]) && !(Array.isArray(reply[name]) && reply[name].length === 0);
  const isFalse = (name: string) => reply[name] === false;
  const isError = (name: string) => /^(?:error|fail)/i.test(String(reply[name]));
  return (
    ['error', 'errors'].find(isSet) ?? ['ok', 'success'].find(isFalse) ?? ['status', 'result'].find(isError)
  );
}

/** Whether the answer is 2xx, after which the sender stops. Nothing else counts as delivered. A handler need not have run. */
export function isDelivered(answer: EndpointAnswer): boolean {
  const status = statusOf(answer);
  return status >= 200 && status < 300;
}

/** Whether the endpoint refused the signature: 401 or 403. Another 4xx does not show that it checked the signature. */
export function isSignatureRefused(answer: EndpointAnswer): boolean {
  return statusOf(answer) === 401 || statusOf(answer) === 403;
}

/** Whether the answer is a sign of a wrong URL or secret, so that no further delivery can help. */
export function isWrongTarget(answer: EndpointAnswer): boolean {
  const status = statusOf(answer);
  const isElsewhere = (status >= 300 && status < 400) || [404, 405, 410].includes(status);
  const isPage = answer.kind === 'reply' && answer.isPage === true && isDelivered(answer);
  // A sandbox with a fault makes signatures wrong by itself.
  if (faultOf(answer) !== undefined) return false;
  return answer.kind === 'unreachable' || isElsewhere || isPage || isSignatureRefused(answer);
}

/** The status of a reply; 0 without a reply. */
export function statusOf(answer: EndpointAnswer): number {
  return answer.kind === 'reply' ? answer.status : 0;
}

/** The fault of a sandbox that made the signature wrong. */
export function faultOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.fault : undefined;
}

/** Which copy of an event a command has sent. */
export type Copy = 'first' | 'repeated';

/**
 * Whether the answer shows that the endpoint handled or enqueued the event. The commands that send events succeed only with
 * such answers: 2xx with `handled` or `queued`, or, of a receiver that is not built with stablehooks, 2xx with a reply that
 * is neither a page nor JSON with an outcome, a code or the report of a failure. A truncated reply shows nothing.
 *
 * `duplicate` is a success for the repeated copy alone, and `handled` is a failure, because the handler has run twice. After
 * a fault of
 * the sandbox that made the signature wrong, every 2xx is a failure.
 */
export function isAccepted(answer: EndpointAnswer, copy: Copy = 'first'): boolean {
  if (answer.kind !== 'reply' || !isDelivered(answer) || faultOf(answer) !== undefined) return false;
  const { outcome, code, isPage = false, isCut = false } = answer;
  if (code !== undefined || isPage || isCut) return false;
  return outcome === undefined || outcome === 'queued' || outcome === SUCCESS[copy];
}

const SUCCESS = { first: 'handled', repeated: 'duplicate' } as const;

/** Whether the answer is 2xx, and does not show that the endpoint handled or enqueued the event, now or before. */
export function isWithoutEffect(answer: EndpointAnswer): boolean {
  const isShown = isAccepted(answer) || isAccepted(answer, 'repeated');
  return isDelivered(answer) && faultOf(answer) === undefined && !isShown;
}

/** Whether the reply reports that the endpoint has no handler for the event: 2xx with `ignored` or `parked`. */
export function reportsNoHandler(answer: EndpointAnswer): boolean {
  return isDelivered(answer) && ['ignored', 'parked'].includes(outcomeOf(answer) ?? '');
}

/** Whether the endpoint accepted the event for later, so its answer does not show the effect. */
export function isQueued(answer: EndpointAnswer): boolean {
  return statusOf(answer) === 202 || outcomeOf(answer) === 'queued';
}

/** Whether another delivery or process of the endpoint runs the event, or must run it. */
export function isBusy(answer: EndpointAnswer): boolean {
  return answer.kind === 'reply' && answer.code === 'ERR_EVENT_BUSY';
}

/** The outcome in the reply of a stablehooks receiver; `undefined` from other receivers. */
export function outcomeOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.outcome : undefined;
}

/** The answer in a few words: `200 handled`, `401 ERR_SIGNATURE_MISMATCH`, `no response in 10 s`. */
export function describeAnswer(answer: EndpointAnswer): string {
  if (answer.kind === 'silence') return `no response in ${formatWait(answer.elapsedMs)}`;
  if (answer.kind === 'lost')
    return `${isAnswerLost(answer) ? 'response lost' : 'lost'} (fault ${answer.fault})`;
  if (answer.kind === 'unreachable') {
    return `${connectionFailure(answer.reason)?.what ?? 'no connection'} (${answer.reason})`;
  }
  const fault = answer.fault && `(fault ${answer.fault})`;
  const form = answer.isPage ? '(a page)' : answer.isCut && `(${TOO_LONG})`;
  return [answer.status, answer.code ?? answer.outcome, form, fault].filter(Boolean).join(' ');
}

export const TOO_LONG = 'the response is longer than 64 KiB';

/** Whether the delivery arrived, and the sandbox only dropped the answer. */
export function isAnswerLost({ fault }: { readonly fault: string }): boolean {
  return fault === 'reset';
}

/** A time limit as it was typed, with the precision of a timer: `400 ms`, `1.5 s`. */
function formatWait(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${Math.round(ms / 100) / 10} s`;
}

/** Whether the endpoint's inbox holds the event back until its retry time. */
export function isNotDue(answer: EndpointAnswer): boolean {
  return answer.kind === 'reply' && answer.code === 'ERR_EVENT_NOT_DUE';
}
