import { StablehooksError } from '../core/errors.js';

/** A failure, or a sign that something is wrong. A problem contains no payloads and no secrets. */
export interface PollProblem {
  /** An error code of this package, or one of {@link PollProblemCode}. */
  readonly code: string;
  readonly message: string;
  /** The event's id, if the problem is about a single event. */
  readonly id?: string | undefined;
  /** How long the service asked the client to wait before the next request, in ms. */
  readonly retryAfterMs?: number | undefined;
}

const MESSAGES = {
  ERR_POLL_BUSY:
    'Another process is polling with this inbox, so this poll did nothing. This is normal when several processes poll.',
  ERR_POLL_STOPPED:
    'The poll was stopped. The events that it found are in the inbox, and the next poll continues from there.',
  ERR_LEASE_LOST:
    'Another process took over the poll lease, so the watermark was not saved. Raise leaseMs if this happens often.',
  ERR_WATERMARK_AHEAD:
    'The stored watermark or start date was in the future, because a clock was wrong. The poller corrects the time, and opens gaps for spans that the list does not prove. Check the clocks.',
  ERR_CLOCK_BEHIND:
    "The `Date` header of the service's responses is more than lagMs behind this machine's clock, so the watermark stays behind as well. Check both clocks, and check whether a cache responds instead of the service.",
  ERR_LIST_MAX:
    'The list returned fewer events than `listMax` although it contains more, so the poller now ignores `listMax` for this inbox. Remove the option, or ask the service how many events it returns.',
  ERR_EVENT_LATE:
    'Some events were listed more than lagMs after they were created, when the watermark had already passed them. Those events are recorded, and `ids.late` in the report contains their ids. Raise lagMs.',
} as const;

/**
 * The codes that the poller itself reports. Two of them are about listed events:
 *
 * - `ERR_EVENT_MALFORMED`: an element of the list is not a valid event. A gap covers the element.
 * - `ERR_EVENT_CONFLICT`: two events with the same id differ. The poller uses the event that it read first.
 */
export type PollProblemCode = keyof typeof MESSAGES | 'ERR_EVENT_MALFORMED' | 'ERR_EVENT_CONFLICT';

export function problemOf(code: keyof typeof MESSAGES): PollProblem {
  return { code, message: MESSAGES[code] };
}

/** Errors of this package keep their own code. Any other error gets `code`. */
export function toProblem(
  error: unknown,
  { code, id }: { readonly code: string; readonly id?: string | undefined },
): PollProblem {
  const about = id === undefined ? {} : { id };
  if (error instanceof StablehooksError) {
    const { retryAfterMs } = error as StablehooksError & { readonly retryAfterMs?: number | undefined };
    const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
    return { code: error.code, message: error.message, ...about, ...wait };
  }
  // Error messages from other packages may contain secrets, so only the error's name is kept.
  const name = error instanceof Error ? error.name : typeof error;
  return { code, message: `An unexpected error (${name}) was thrown.`, ...about };
}

export const DOUBTFUL: ReadonlySet<string> = new Set<PollProblemCode | 'ERR_INBOX_FAILED'>([
  'ERR_CLOCK_BEHIND',
  'ERR_EVENT_CONFLICT',
  'ERR_EVENT_LATE',
  'ERR_INBOX_FAILED',
]);
