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
  /** Work that continues after the response: an overdue handler, or a handler that runs after a 202. It never rejects. */
  readonly rest?: Promise<unknown> | undefined;
}

export type Dispatch = (work: Work) => Promise<Run>;
