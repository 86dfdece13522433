/** Problems: what failed or looked wrong in a poll, as plain data. */
import { StablehooksError } from '../core/errors.js';

/** One thing that failed or looked wrong. Holds no payload and no secret. */
export interface Problem {
  /** An error code of this package, or one of {@link ProblemCode}. */
  readonly code: string;
  readonly message: string;
  /** The event that it is about. */
  readonly id?: string;
}

/**
 * What the poller finds wrong by itself.
 *
 * - `ERR_EVENT_MALFORMED`: an element of the list is not an event. The watermark stays before it.
 * - `ERR_EVENT_CONFLICT`: two events of one id differ; the first stands.
 * - `ERR_EVENT_LATE`: events were listed only after the watermark had passed them; raise `lagMs`.
 * - `ERR_HORIZON_AHEAD`: the stored watermark lies in the future, so a clock stood wrong.
 * - `ERR_POLL_BUSY`: another process polls.
 * - `ERR_POLL_STOPPED`: the poll was stopped before its end.
 * - `ERR_LEASE_LOST`: another process polls since this one was too slow; the watermark was not saved.
 */
export type ProblemCode =
  | 'ERR_EVENT_MALFORMED'
  | 'ERR_EVENT_CONFLICT'
  | 'ERR_EVENT_LATE'
  | 'ERR_HORIZON_AHEAD'
  | 'ERR_POLL_BUSY'
  | 'ERR_POLL_STOPPED'
  | 'ERR_LEASE_LOST';

/** Turns an error into a problem: its own code where it is one of this package, else the given one. */
export function toProblem(
  error: unknown,
  { code, id }: { readonly code: string; readonly id?: string | undefined },
): Problem {
  const about = id === undefined ? {} : { id };
  if (error instanceof StablehooksError) return { code: error.code, message: error.message, ...about };
  // Words of others may hold anything; only ours are known to hold no secret.
  const name = error instanceof Error ? error.name : typeof error;
  return {
    code,
    message: `Something threw an error that this package has no rule for (${name}).`,
    ...about,
  };
}

const MESSAGES = {
  ERR_POLL_BUSY: 'Another process polls with this inbox; nothing was asked. That is well where several do.',
  ERR_POLL_STOPPED: 'The poll was stopped. What was found is in the inbox; the next poll goes on.',
  ERR_LEASE_LOST:
    'Another process took over the lease to poll. The watermark was not saved; raise leaseMs if that happens often.',
  ERR_HORIZON_AHEAD:
    'The stored watermark lies in the future: a clock stood wrong. Only a complete list can prove anything until then.',
  ERR_EVENT_LATE:
    'The list shows new events from before the watermark: older than `since`, or listed later than lagMs after they were created. They were taken; in the latter case raise lagMs.',
} as const satisfies Partial<Record<ProblemCode, string>>;

/** A problem that the poller found by itself and that is about no event in particular. */
export function problemOf(code: keyof typeof MESSAGES): Problem {
  return { code, message: MESSAGES[code] };
}
