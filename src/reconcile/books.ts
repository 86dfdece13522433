import type { InboxState } from '../core/ports.js';

export interface BookLine {
  /** The event's state when the inbox was read; `null` if the inbox didn't have the event. */
  readonly state: InboxState | null;
  /** Whether the ledger must have an entry for the event once the event is done. */
  readonly booked: boolean;
  /** Whether the inbox has the event, but the service's list lacks it although the list must contain it. */
  readonly unlisted: boolean;
  /** Whether the inbox and the service's list have different events with this id. */
  readonly differs: boolean;
  readonly entries: number;
}

const NOTHING: BookLine = { state: null, booked: false, unlisted: false, differs: false, entries: 0 };

export class Books {
  readonly #lines = new Map<string, BookLine>();
  /** Ids with the same facts share one line, because a line for each id would take far more memory than the ids. */
  readonly #shared = new Map<string, BookLine>();

  get lines(): ReadonlyMap<string, BookLine> {
    return this.#lines;
  }

  set(id: string, known: Partial<BookLine>): void {
    const line = { ...(this.#lines.get(id) ?? NOTHING), ...known };
    const facts = Object.values(line).join();
    if (!this.#shared.has(facts)) this.#shared.set(facts, line);
    this.#lines.set(id, this.#shared.get(facts) ?? line);
  }
}
