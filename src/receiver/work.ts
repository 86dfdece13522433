/** The interfaces between the parts of the receiver. */
import type { UnknownEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';
import type { OutcomeResult } from './outcome.js';

/** One authentic event that is to be handled. */
export interface Work {
  readonly event: UnknownEvent;
  readonly origin: Origin;
  /** The event's JSON exactly as it arrived, if that text is known. */
  readonly json?: string | undefined;
  readonly secretIndex?: number | undefined;
  /** Once this aborts, the event stops waiting for a free slot. It stays stored. */
  readonly signal?: AbortSignal | undefined;
}

export interface Run {
  readonly result: OutcomeResult;
  /** Work that continues after the response: an overdue handler, or a handler that runs after a 202. Never rejects. */
  readonly rest?: Promise<unknown> | undefined;
}

export type Dispatch = (work: Work) => Promise<Run>;
