/** Records in an inbox which events an endpoint marked as done although no handler ran. */
import { describeAnswer, type EndpointAnswer, isAccepted, outcomeOf } from './answer.js';

/** The last error contains this text if no handler ran. */
const MARK = 'no handler ran';

export function isWithoutHandler(lastError: string | null | undefined): boolean {
  return lastError?.includes(MARK) ?? false;
}

/** After an endpoint has responded with `ignored`, it responds with `duplicate`, although no handler ran. */
export function hasTakenEffect(answer: EndpointAnswer, lastError: string | null | undefined): boolean {
  return isAccepted(answer) || (isAccepted(answer, 'repeated') && !isWithoutHandler(lastError));
}

/** Keeps the mark if an earlier response was `ignored`. */
export function toLastError(answer: EndpointAnswer, lastError: string | null | undefined): string {
  const isMarked = outcomeOf(answer) === 'ignored' || isWithoutHandler(lastError);
  return describeAnswer(answer) + (isMarked ? `, ${MARK}` : '');
}
