import type { EventType } from '../core/events.js';

export interface ListQuery {
  /** The type to list; `null` to list all types. */
  readonly type: EventType | null;
  readonly limit: number;
}

/** The fields of a listed event that decide what a response proves. */
export interface EventKey {
  readonly id: string;
  readonly type: string;
  /** The event's `created_at`, in epoch ms. */
  readonly at: number;
}

export interface ListAnswer extends ListQuery {
  /** How many elements the response contains, including unreadable and repeated elements, which count towards a cap. */
  readonly size: number;
  /** The events by id, in the order in which the response lists them. */
  readonly events: ReadonlyMap<string, EventKey>;
  /** Creation times in epoch ms; `null` if the time is unreadable too. Omits elements whose type the query did not ask for. */
  readonly unreadable: readonly (number | null)[];
  /** When the service responded, by its own clock, in epoch ms; `null` if the response doesn't say. */
  readonly servedAt: number | null;
}
