/** Records in an inbox which events an endpoint marked as done although no handler ran. */
import { describeAnswer, type EndpointAnswer, isAccepted, outcomeOf } from './answer.js';

/** The text in the last error of an event for which no handler ran. */
const MARK = 'no handler ran';

/** Whether the last error shows that the endpoint responded to an earlier attempt with `ignored`. */
export function isWithoutHandler(lastError: string | null | undefined): boolean {
  return lastError?.includes(MARK) ?? false;
}

/**
 * Whether the endpoint handled or queued the event, now or earlier. After it has responded with `ignored`, the endpoint
 * responds with `duplicate`, although no handler ran.
 */
export function hasTakenEffect(answer: EndpointAnswer, lastError: string | null | undefined): boolean {
  return isAccepted(answer) || (isAccepted(answer, 'repeated') && !isWithoutHandler(lastError));
}

/**
 * Returns the error to record for an event without effect: the response, and whether this or an earlier response was
 * `ignored`.
 */
export function toLastError(answer: EndpointAnswer, lastError: string | null | undefined): string {
  const isMarked = outcomeOf(answer) === 'ignored' || isWithoutHandler(lastError);
  return describeAnswer(answer) + (isMarked ? `, ${MARK}` : '');
}
