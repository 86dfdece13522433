import { connectionFailure } from '../explain/connection.js';

/** Sandbox faults that prevent a response. */
export const LOSSES = ['drop', 'cut', 'reset'] as const;

/**
 * `unreachable`: `reason` is the system's error code. `lost`: a sandbox fault dropped the delivery or, if the fault is
 * `reset`, only the response.
 */
export type EndpointAnswer = { readonly elapsedMs: number } & (
  | (ReplyReport & {
      readonly kind: 'reply';
      readonly status: number;
      /** The target of a redirect. */
      readonly location?: string | undefined;
      /** The sandbox fault that made the signature wrong. */
      readonly fault?: string | undefined;
    })
  | { readonly kind: 'silence' }
  | { readonly kind: 'unreachable'; readonly reason: string }
  | { readonly kind: 'lost'; readonly fault: (typeof LOSSES)[number] }
);

export interface ReplyReport {
  readonly outcome: string | undefined;
  readonly code: string | undefined;
  /** Whether the response is an HTML page. @default false */
  readonly isPage?: true;
  /** Whether the response is longer than 64 KiB. If so, the outcome is unknown. @default false */
  readonly isCut?: true;
}

export const MAX_REPLY_BYTES = 65_536;

/** If the body is truncated, pass more than {@link MAX_REPLY_BYTES} bytes, so that the truncation is detected. */
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

/** Returns only the name of the field that reports the failure, because the field's text can contain a payload. */
function failureIn(reply: Reply): string | undefined {
  const isSet = (name: string) =>
    Boolean(reply[name]) && !(Array.isArray(reply[name]) && reply[name].length === 0);
  const isFalse = (name: string) => reply[name] === false;
  const isError = (name: string) => /^(?:error|fail)/i.test(String(reply[name]));
  return (
    ['error', 'errors'].find(isSet) ?? ['ok', 'success'].find(isFalse) ?? ['status', 'result'].find(isError)
  );
}

/** After any 2xx, even if no handler ran, the sender does not resend the event. */
export function isDelivered(answer: EndpointAnswer): boolean {
  const status = statusOf(answer);
  return status >= 200 && status < 300;
}

/** Only a 401 or 403 shows that the endpoint checked the signature. */
export function isSignatureRefused(answer: EndpointAnswer): boolean {
  return statusOf(answer) === 401 || statusOf(answer) === 403;
}

/** If the target is wrong, further deliveries would get the same response. */
export function isWrongTarget(answer: EndpointAnswer): boolean {
  const status = statusOf(answer);
  const isElsewhere = (status >= 300 && status < 400) || [404, 405, 410].includes(status);
  const isPage = answer.kind === 'reply' && answer.isPage === true && isDelivered(answer);
  // A sandbox fault makes signatures wrong on purpose.
  if (faultOf(answer) !== undefined) return false;
  return answer.kind === 'unreachable' || isElsewhere || isPage || isSignatureRefused(answer);
}

/** Returns 0 if there was no response. */
export function statusOf(answer: EndpointAnswer): number {
  return answer.kind === 'reply' ? answer.status : 0;
}

export function faultOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.fault : undefined;
}

export type Copy = 'first' | 'repeated';

/**
 * Whether the response shows that the endpoint handled or queued the event. Without stablehooks, a receiver shows this
 * with a 2xx whose body is neither a page nor JSON with an outcome, a code or a failure report. For the repeated copy,
 * `handled` is a failure, because the handler ran twice.
 */
export function isAccepted(answer: EndpointAnswer, copy: Copy = 'first'): boolean {
  if (answer.kind !== 'reply' || !isDelivered(answer) || faultOf(answer) !== undefined) return false;
  const { outcome, code, isPage = false, isCut = false } = answer;
  if (code !== undefined || isPage || isCut) return false;
  return outcome === undefined || outcome === 'queued' || outcome === SUCCESS[copy];
}

const SUCCESS = { first: 'handled', repeated: 'duplicate' } as const;

/** Whether the response is a 2xx but does not show that the endpoint handled or queued the event. */
export function isWithoutEffect(answer: EndpointAnswer): boolean {
  const isShown = isAccepted(answer) || isAccepted(answer, 'repeated');
  return isDelivered(answer) && faultOf(answer) === undefined && !isShown;
}

export function reportsNoHandler(answer: EndpointAnswer): boolean {
  return isDelivered(answer) && ['ignored', 'parked'].includes(outcomeOf(answer) ?? '');
}

/** The response to a queued event does not show whether the event takes effect. */
export function isQueued(answer: EndpointAnswer): boolean {
  return statusOf(answer) === 202 || outcomeOf(answer) === 'queued';
}

/** Whether another delivery or another process is running the event or must run it. */
export function isBusy(answer: EndpointAnswer): boolean {
  return answer.kind === 'reply' && answer.code === 'ERR_EVENT_BUSY';
}

export function outcomeOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.outcome : undefined;
}

/** Returns a text such as `200 handled`, `401 ERR_SIGNATURE_MISMATCH` or `no response in 10 s`. */
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

/** Whether the delivery arrived and the sandbox dropped only the response. */
export function isAnswerLost({ fault }: { readonly fault: string }): boolean {
  return fault === 'reset';
}

/** Rounds the measured time, so that it reads like a time limit, such as `400 ms` or `1.5 s`. */
function formatWait(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${Math.round(ms / 100) / 10} s`;
}

export function isNotDue(answer: EndpointAnswer): boolean {
  return answer.kind === 'reply' && answer.code === 'ERR_EVENT_NOT_DUE';
}
