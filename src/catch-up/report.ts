/** The report of a poll: plain data, so that it can be logged, stored and sent as JSON. */
import { StablehooksError } from '../core/errors.js';
import type { EventType } from '../core/events.js';
import type { Tally } from '../receiver/outcome.js';
import type { Finding } from './survey.js';

/** What one poll did and proved. Survives `JSON.stringify`. */
export interface PollReport {
  /** Whether every event of the five types created after `since` and up to the new horizon is recorded. */
  readonly proven: boolean;
  /** The horizon after this poll, ISO; `null` when it could not be read because another process polls or the inbox failed. */
  readonly horizon: string | null;
  /** Different readable events in the answers of this poll. */
  readonly fetched: number;
  /** Of these, the ones that the inbox had never seen, unknown types included: pull saw them first. */
  readonly new: number;
  /** Of `new`, the ones that this poll made take effect or queued. It counts what push alone would have lost or delayed. */
  readonly recovered: number;
  /** Of `new`, the ones that the list calls `delivered`: some endpoint answered well, yet this inbox never saw them. */
  readonly acknowledgedUnknown: number;
  /** Events, from the list or from the inbox, whose handler finished in this poll. */
  readonly handled: number;
  /** Events from the list that were done already. Those that wait in the inbox, are dead or parked are in no count but `fetched`. */
  readonly duplicates: number;
  /** Events, from the list or from the inbox, that this poll tried and that did not succeed. */
  readonly failed: number;
  /** Requests put to the list, failed ones included, the client's own retries not. */
  readonly requests: number;
  /** The verdict on the whole list, and on each type where it was asked for by itself. */
  readonly verdicts: readonly Finding[];
  /** Where events may be missing: which type (`null`: all), and the span of `created_at`, ISO. */
  readonly gaps: readonly Gap[];
  /** What failed or looked wrong. */
  readonly problems: readonly Problem[];
  /** How the events that waited in the inbox ended, before the list was asked; `null` when it was not asked. */
  readonly redriven: Tally | null;
  readonly durationMs: number;
}

/** A span of time of which it is not proven that everything is recorded. */
export interface Gap {
  readonly type: EventType | null;
  /** Everything up to here is recorded. */
  readonly after: string;
  /** The poll's start. */
  readonly before: string;
}

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
 * - `ERR_EVENT_MALFORMED`: an element of the list is not an event. The horizon stays before it.
 * - `ERR_EVENT_CONFLICT`: two events of one id differ; the first stands.
 * - `ERR_EVENT_LATE`: events were listed only after the horizon had passed them; raise `lagMs`.
 * - `ERR_HORIZON_AHEAD`: the stored horizon lies in the future, so a clock stood wrong.
 * - `ERR_POLL_BUSY`: another process polls.
 * - `ERR_POLL_STOPPED`: the poll was stopped before its end.
 * - `ERR_LEASE_LOST`: another process polls since this one was too slow; the horizon was not saved.
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
