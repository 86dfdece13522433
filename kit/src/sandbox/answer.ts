import { type EndpointAnswer, LOSSES } from '../io/answer.js';
import { ATTEMPT_TIMEOUT, type Attempt } from './deliveries.js';

/** The sandbox faults that should make a receiver reject the delivery. */
const FORGERIES = ['corruptSignature', 'reserialise'] as const;

export function answerOf(attempt: Attempt): EndpointAnswer {
  const { response, error, errorCode, faults, durationMs: elapsedMs } = attempt;
  if (response !== null) {
    const { status, report } = response;
    const { location } = response.headers;
    const fault = FORGERIES.find((name) => faults.includes(name));
    return { kind: 'reply', status, location, ...report, fault, elapsedMs };
  }
  if (errorCode === ATTEMPT_TIMEOUT) return { kind: 'silence', elapsedMs };
  // An error with a code comes from the endpoint, even if a fault occurred as well.
  if (errorCode !== null) return { kind: 'unreachable', reason: errorCode, elapsedMs };
  const fault = LOSSES.find((name) => faults.includes(name));
  if (fault !== undefined) return { kind: 'lost', fault, elapsedMs };
  return { kind: 'unreachable', reason: error ?? 'no response', elapsedMs };
}
