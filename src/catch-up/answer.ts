/** The queries of the list, and its answers. */
import type { EventType } from '../core/events.js';

export interface ListQuery {
  /** `null`: every type. */
  readonly type: EventType | null;
  readonly limit: number;
}

/** The part of an event that coverage depends on. */
export interface EventKey {
  readonly id: string;
  readonly type: string;
  /** `created_at`, epoch ms. */
  readonly at: number;
}

export interface ListAnswer extends ListQuery {
  /** How many elements came back, unreadable ones and repetitions included: a cap counts them all. */
  readonly size: number;
  /** The events by id, in the order of the answer. */
  readonly events: ReadonlyMap<string, EventKey>;
  /** When the elements were created that cannot be read and can be of a known type; `null` if that cannot be read either. */
  readonly unreadable: readonly (number | null)[];
  /** The service's clock when it answered, epoch ms; `null` when it did not say. */
  readonly servedAt: number | null;
}
