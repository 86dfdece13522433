/** What the memory inbox holds: entries by id, those that are done apart, and the oldest of these gives way. */
import { encodeEvent, type UnknownEvent } from '../core/events.js';
import type { ClaimOptions, InboxRecord } from '../core/inbox.js';
import { createDueLine, type DueLine } from './memory-due-line.js';
import type { Entry, KeptRecord } from './memory-entry.js';

/** The entries. `open` and `done` are apart, so that neither a search for due events nor eviction walks over both. */
export interface MemoryStore {
  readonly open: ReadonlyMap<string, Entry>;
  readonly done: ReadonlyMap<string, Entry>;
  readonly line: DueLine;
  get(id: string): Entry | undefined;
  /** Makes room if it must, and throws when there is none: nothing that is not done is forgotten. */
  add(
    event: UnknownEvent,
    record: Pick<InboxRecord, 'state' | 'origin' | 'dueAt'> & Pick<ClaimOptions, 'json'>,
  ): Entry;
  change(entry: Entry, changes: Partial<KeptRecord>): KeptRecord;
  /** Moves an entry from `open` to `done`. */
  finish(entry: Entry): void;
}

export function createStore({
  capacity,
  now,
}: {
  readonly capacity: number;
  readonly now: () => number;
}): MemoryStore {
  const open = new Map<string, Entry>();
  const done = new Map<string, Entry>();
  const line = createDueLine(open);

  // One iterator for ever, which stands where the last eviction was: a new one would walk over the holes that all
  // evictions before it left.
  let ages = done.keys();

  function takeOldest(): string | undefined {
    const next = ages.next();
    if (!next.done) return next.value;
    // It had come to an end, and shows nothing of what was done since.
    ages = done.keys();
    return ages.next().value;
  }

  return {
    open,
    done,
    line,
    get: (id) => open.get(id) ?? done.get(id),

    add(event, { state, origin, dueAt, json = encodeEvent(event) }) {
      if (open.size + done.size >= capacity) {
        const oldest = takeOldest();
        if (oldest === undefined) {
          throw new Error(`The memory inbox is full: ${capacity} events, and none is done.`);
        }
        done.delete(oldest);
      }
      const at = now();
      const { id, type } = event;
      const times = { receivedAt: at, updatedAt: at, dueAt };
      const record = { id, type, state, attempts: 0, origin, ...times, lastError: null };
      const entry: Entry = { record, json, token: undefined };
      open.set(id, entry);
      line.note(entry);
      return entry;
    },

    change(entry, changes) {
      // In place, as this runs twice a delivery; whoever asks for a record is given a copy.
      Object.assign(entry.record, changes, { updatedAt: now() });
      line.note(entry);
      return entry.record;
    },

    finish(entry) {
      open.delete(entry.record.id);
      done.set(entry.record.id, entry);
    },
  };
}
