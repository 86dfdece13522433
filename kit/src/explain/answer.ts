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
  | {
      readonly kind: 'reply';
      readonly status: number;
      readonly outcome: string | undefined;
      readonly code: string | undefined;
      /** Where a redirect points to, as it was received. */
      readonly location?: string | undefined;
      /** The fault of a sandbox that made the signature wrong. */
      readonly fault?: string | undefined;
    }
  | { readonly kind: 'silence' }
  | { readonly kind: 'unreachable'; readonly reason: string }
  | { readonly kind: 'lost'; readonly fault: (typeof LOSSES)[number] }
);

/** The outcome and the code in the reply of a stablehooks receiver; `undefined` for other replies. */
export function readOutcome(text: string): {
  readonly outcome: string | undefined;
  readonly code: string | undefined;
} {
  try {
    const { outcome, code } = JSON.parse(text) ?? {};
    return {
      outcome: typeof outcome === 'string' ? outcome : undefined,
      code: typeof code === 'string' ? code : undefined,
    };
  } catch {
    return { outcome: undefined, code: undefined };
  }
}

/** Whether the answer is 2xx, so that the sender stops: nothing else means delivered. It need not have run. */
export function isDelivered(answer: EndpointAnswer): boolean {
  const status = statusOf(answer);
  return status >= 200 && status < 300;
}

/** Whether the endpoint refused the signature: 401 or 403. Another 4xx does not show that it looked at it. */
export function isSignatureRefused(answer: EndpointAnswer): boolean {
  return statusOf(answer) === 401 || statusOf(answer) === 403;
}

/** The status of a reply; 0 without a reply. */
export function statusOf(answer: EndpointAnswer): number {
  return answer.kind === 'reply' ? answer.status : 0;
}

/** The fault of a sandbox that made the signature wrong. */
export function faultOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.fault : undefined;
}
