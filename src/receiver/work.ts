import type { UnknownEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';
import type { OutcomeResult } from './outcome.js';

export interface Work {
  readonly event: UnknownEvent;
  readonly origin: Origin;
  /** Exactly as it arrived, if that text is known. */
  readonly json?: string | undefined;
  readonly secretIndex?: number | undefined;
  /** Once aborted, the event stops waiting for a free slot, but stays stored. */
  readonly signal?: AbortSignal | undefined;
}

export interface Run {
  readonly result: OutcomeResult;
  /** Work that continues after the response. Never rejects. */
  readonly rest?: Promise<unknown> | undefined;
}

export type Dispatch = (work: Work) => Promise<Run>;
