/** One event in the memory inbox: its record, and the event as text. */
import type { UnknownEvent } from '../core/events.js';
import type { InboxRecord } from '../core/inbox.js';

/** An event as it is kept. */
export interface Entry {
  readonly record: KeptRecord;
  /** As text, so that no handler that changes what it was given changes what is run again; `null` once pruned. */
  json: string | null;
  /** Of the last claim. */
  token: string | undefined;
}

/** A record without its event. */
export type KeptRecord = Omit<InboxRecord, 'event'>;

/** The event as it was recorded, a new object each time. */
export function eventOf({ json }: Entry): UnknownEvent | null {
  return json === null ? null : JSON.parse(json);
}
