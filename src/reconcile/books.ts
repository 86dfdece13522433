/** The facts about each id, in one number: a million objects would take far more memory than the ids. */
import { INBOX_STATES, type InboxState } from '../core/ports.js';

/** The facts about one event, or about one id that only the ledger has. */
export interface BookLine {
  /** Its state when the inbox was read; `null` when the inbox did not have it. */
  readonly state: InboxState | null;
  /** Whether an answer of the list has it. */
  readonly listed: boolean;
  /** Whether the list was proven to have every event of its type and time. */
  readonly mustBeListed: boolean;
  /** Whether the ledger must have an entry of it once it is done. */
  readonly booked: boolean;
  /** Whether it is not known when it was created, because it is pruned. */
  readonly undated: boolean;
  /** Whether the inbox has another event with its id than the list. */
  readonly differs: boolean;
  /** How many entries of the ledger have its id. */
  readonly entries: number;
}

/** The ids of the three books, with the facts about each. */
export interface Books {
  readonly size: number;
  get(id: string): BookLine | undefined;
  /** Changes facts about an id, or adds the id. */
  set(id: string, known: Partial<BookLine>): void;
  /** Counts one more entry of the ledger. */
  addEntry(id: string): void;
  [Symbol.iterator](): IterableIterator<readonly [id: string, line: BookLine]>;
}

const STATES: readonly (InboxState | null)[] = [null, ...INBOX_STATES];
const STATE_MASK = 0b111;
const LISTED = 1 << 3;
const MUST_BE_LISTED = 1 << 4;
const BOOKED = 1 << 5;
const UNDATED = 1 << 6;
const DIFFERS = 1 << 7;
/** The number of entries is in the upper bits. */
const ENTRY = 1 << 8;
/** More entries count as this many. */
const MAX_ENTRIES = 2 ** 22;

const EMPTY: BookLine = {
  state: null,
  listed: false,
  mustBeListed: false,
  booked: false,
  undated: false,
  differs: false,
  entries: 0,
};

export function createBooks(): Books {
  const packed = new Map<string, number>();
  return {
    get size() {
      return packed.size;
    },
    get(id) {
      const bits = packed.get(id);
      return bits === undefined ? undefined : unpack(bits);
    },
    set(id, known) {
      const bits = packed.get(id);
      packed.set(id, pack({ ...(bits === undefined ? EMPTY : unpack(bits)), ...known }));
    },
    addEntry(id) {
      const bits = packed.get(id) ?? 0;
      if (bits < MAX_ENTRIES * ENTRY) packed.set(id, bits + ENTRY);
    },
    *[Symbol.iterator]() {
      for (const [id, bits] of packed) yield [id, unpack(bits)] as const;
    },
  };
}

function pack({ state, listed, mustBeListed, booked, undated, differs, entries }: BookLine): number {
  return (
    STATES.indexOf(state) +
    (listed ? LISTED : 0) +
    (mustBeListed ? MUST_BE_LISTED : 0) +
    (booked ? BOOKED : 0) +
    (undated ? UNDATED : 0) +
    (differs ? DIFFERS : 0) +
    entries * ENTRY
  );
}

function unpack(bits: number): BookLine {
  return {
    state: STATES[bits & STATE_MASK] ?? null,
    listed: (bits & LISTED) !== 0,
    mustBeListed: (bits & MUST_BE_LISTED) !== 0,
    booked: (bits & BOOKED) !== 0,
    undated: (bits & UNDATED) !== 0,
    differs: (bits & DIFFERS) !== 0,
    entries: Math.floor(bits / ENTRY),
  };
}
