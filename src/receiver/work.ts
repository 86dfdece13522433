/** The interfaces between the parts of the receiver. */
import type { UnknownEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';
import type { OutcomeResult } from './outcome.js';

/** One authentic event on its way to a handler. */
export interface Work {
  readonly event: UnknownEvent;
  readonly origin: Origin;
  /** The event's JSON as it arrived, if it is known. */
  readonly json?: string | undefined;
  readonly secretIndex?: number | undefined;
  /** Aborts the wait for a free slot; the event stays stored. */
  readonly signal?: AbortSignal | undefined;
}

export interface Run {
  readonly result: OutcomeResult;
  /** The work that continues after the answer: an overdue handler, or one that runs after a 202. It never rejects. */
  readonly rest?: Promise<unknown> | undefined;
}

export type Dispatch = (work: Work) => Promise<Run>;
