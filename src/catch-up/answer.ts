/** Queries to the list, and the responses. */
import type { EventType } from '../core/events.js';

export interface ListQuery {
  /** `null` for every type. */
  readonly type: EventType | null;
  readonly limit: number;
}

/** The fields of an event that coverage depends on. */
export interface EventKey {
  readonly id: string;
  readonly type: string;
  /** `created_at`, epoch ms. */
  readonly at: number;
}

export interface ListAnswer extends ListQuery {
  /** How many elements the list returned, including unreadable and repeated ones, because a cap counts them all. */
  readonly size: number;
  /** The events by id, in the order of the response. */
  readonly events: ReadonlyMap<string, EventKey>;
  /**
   * When each unreadable element that may be of a known type was created; `null` if that time is unreadable as well.
   */
  readonly unreadable: readonly (number | null)[];
  /** The service's clock at the time of the response, in epoch ms; `null` if the response doesn't include it. */
  readonly servedAt: number | null;
}
