import { createdAtMs, type UnknownEvent } from '../core/events.js';
import { addAmounts } from './amount.js';

/** The events and ledger entries of one day, type and currency. */
export interface DailyTotal {
  /** The day on which the events were created, in UTC, such as `2026-01-31`. */
  readonly date: string;
  readonly type: string;
  /** The result of `amounts.currency`; `null` if it returned nothing or is not given. */
  readonly currency: string | null;
  /** Events that the list or the inbox has. */
  readonly events: number;
  /** Ledger entries of these events. */
  readonly entries: number;
  /** The exact sum of the events' amounts; `null` without `amounts`, or when an amount is not decimal. */
  readonly eventAmount: string | null;
  /** The exact sum of the entries' amounts; `null` without `amounts`, or when an amount is not decimal. */
  readonly entryAmount: string | null;
}

/** Where the amounts are. Sums are exact: amounts are decimal strings, and never become floats. */
export interface Amounts<Entry> {
  /** The amount of an event; `undefined` if it has none: it then adds nothing. */
  readonly event: (event: UnknownEvent) => string | undefined;
  /** The amount of a ledger entry; `undefined` if it has none: it then adds nothing. */
  readonly entry: (entry: Entry) => string | undefined;
  /** The currency of an event: each has its own sum. @default one sum */
  readonly currency?: ((event: UnknownEvent) => string | undefined) | undefined;
}

type Mutable<Value> = { -readonly [Name in keyof Value]: Value[Name] };

export class DailyTotals<Entry> {
  readonly #amounts: Amounts<Entry> | undefined;
  readonly #totals = new Map<string, Mutable<DailyTotal>>();

  constructor(amounts: Amounts<Entry> | undefined) {
    this.#amounts = amounts;
  }

  addEvent(event: UnknownEvent): void {
    const total = this.#totalOf(event);
    total.events += 1;
    total.eventAmount = add(total.eventAmount, this.#amounts?.event(event));
  }

  addEntry(entry: Entry, event: UnknownEvent): void {
    const total = this.#totalOf(event);
    total.entries += 1;
    total.entryAmount = add(total.entryAmount, this.#amounts?.entry(entry));
  }

  /** By date, then type, then currency. */
  list(): readonly DailyTotal[] {
    return [...this.#totals].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, total]) => total);
  }

  #totalOf(event: UnknownEvent): Mutable<DailyTotal> {
    const date = new Date(createdAtMs(event)).toISOString().slice(0, 10);
    const { type } = event;
    const currency = this.#amounts?.currency?.(event) ?? null;
    const key = JSON.stringify([date, type, currency]);
    const known = this.#totals.get(key);
    if (known !== undefined) return known;
    const zero = this.#amounts === undefined ? null : '0';
    const total = { date, type, currency, events: 0, entries: 0, eventAmount: zero, entryAmount: zero };
    this.#totals.set(key, total);
    return total;
  }
}

/** A sum that lacks one amount would look right, so it becomes `null`. */
function add(sum: string | null, amount: string | undefined): string | null {
  if (sum === null || amount === undefined) return sum;
  return addAmounts(sum, amount) ?? null;
}
