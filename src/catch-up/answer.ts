/** Queries to the list, and their answers. */
import type { EventType } from '../core/events.js';

export interface ListQuery {
  /** `null`: every type. */
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
  /** The events by id, in the order of the answer. */
  readonly events: ReadonlyMap<string, EventKey>;
  /** When the unreadable elements were created that may be of a known type; `null` if that is unreadable as well. */
  readonly unreadable: readonly (number | null)[];
  /** The service's clock when it answered, epoch ms; `null` if the answer does not include it. */
  readonly servedAt: number | null;
}
