/** Records in an inbox which events an endpoint marked done because it has no handler for them. */
import { describeAnswer, type EndpointAnswer, isAccepted, outcomeOf } from './answer.js';

/** A part of the last error of such an event. */
const MARK = 'no handler ran';

/** Whether the last error shows that the endpoint responded to an earlier attempt with `ignored`. */
export function isWithoutHandler(lastError: string | null | undefined): boolean {
  return lastError?.includes(MARK) ?? false;
}

/**
 * Whether the endpoint handled or queued the event, now or earlier. After `ignored`, the endpoint responds with
 * `duplicate`, although it ran nothing.
 */
export function hasTakenEffect(answer: EndpointAnswer, lastError: string | null | undefined): boolean {
  return isAccepted(answer) || (isAccepted(answer, 'repeated') && !isWithoutHandler(lastError));
}

/** The last error of an event without effect: the response, and whether this or an earlier response was `ignored`. */
export function toLastError(answer: EndpointAnswer, lastError: string | null | undefined): string {
  const isMarked = outcomeOf(answer) === 'ignored' || isWithoutHandler(lastError);
  return describeAnswer(answer) + (isMarked ? `, ${MARK}` : '');
}
