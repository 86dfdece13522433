import { createdAtMs, type UnknownEvent } from '../core/events.js';
import { addAmounts } from './amount.js';

/** The totals of events and ledger entries for one day, event type and currency. */
export interface DailyTotal {
  /** The day on which the events were created, in UTC, such as `2026-01-31`. */
  readonly date: string;
  readonly type: string;
  /** The currency from `amounts.currency`; `null` if that function isn't set or returned nothing. */
  readonly currency: string | null;
  /** The number of events of that day, type and currency in the service's list or the inbox. */
  readonly events: number;
  /** The number of ledger entries for these events. */
  readonly entries: number;
  /** The exact sum of the events' amounts; `null` if `amounts` isn't set or if an amount is not a decimal number. */
  readonly eventAmount: string | null;
  /** The exact sum of the entries' amounts; `null` if `amounts` isn't set or if an amount is not a decimal number. */
  readonly entryAmount: string | null;
}

/** Functions that return the amounts to add up. Amounts are decimal strings and never become floats, so sums are exact. */
export interface Amounts<Entry> {
  /** Returns the amount of an event, or `undefined` if the event has no amount to add. */
  readonly event: (event: UnknownEvent) => string | undefined;
  /** Returns the amount of a ledger entry, or `undefined` if the entry has no amount to add. */
  readonly entry: (entry: Entry) => string | undefined;
  /** Returns the currency of an event. Each currency has its own sum. @default one sum for all events */
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

/** An invalid amount makes the sum `null`, because a sum without that amount would look right. */
function add(sum: string | null, amount: string | undefined): string | null {
  if (sum === null || amount === undefined) return sum;
  return addAmounts(sum, amount) ?? null;
}
