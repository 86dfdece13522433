/** Events that an endpoint answered without running a handler: how an inbox remembers them. */
import { describeAnswer, type EndpointAnswer, isAccepted, noHandlerRan, outcomeOf } from './delivery.js';

/** Part of the last error of such an event. */
const MARK = 'no handler ran';

/** Whether the last error says that an earlier attempt was answered without running a handler. */
export function isWithoutHandler(lastError: string | null | undefined): boolean {
  return lastError?.includes(MARK) ?? false;
}

/**
 * Whether the answer shows that the endpoint handled the event or queued it. An endpoint that answered `ignored` or
 * `parked` answers `duplicate` later, and has run nothing.
 *
 * @param lastError - what the inbox kept of the attempt before.
 */
export function hasTakenEffect(answer: EndpointAnswer, lastError: string | null | undefined): boolean {
  return isAccepted(answer) && !(outcomeOf(answer) === 'duplicate' && isWithoutHandler(lastError));
}

/**
 * The last error of an event for which {@link hasTakenEffect} is false: the answer, and whether no handler ran in this
 * attempt or in an earlier one.
 */
export function toLastError(answer: EndpointAnswer, lastError: string | null | undefined): string {
  return describeAnswer(answer) + (noHandlerRan(answer) || isWithoutHandler(lastError) ? `, ${MARK}` : '');
}
