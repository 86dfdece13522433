/** The line of due events in the memory inbox: formed once, and then taken one by one until it ends. */
import type { Entry } from './memory-entry.js';

/** What counts as due: at which time, and which parked types are known by now. */
export interface DueRules {
  readonly at: number;
  readonly types: readonly string[];
}

export interface DueLine {
  /** Yields what is due, the longest due first, each once. */
  take(rules: DueRules): Generator<Entry>;
  /** Hears of every change; the line is formed anew where the entry could stand before somebody in it. */
  note(entry: Entry): void;
}

/** To look through all that is open for each few that are taken would take the square of their number. */
export function createDueLine(open: ReadonlyMap<string, Entry>): DueLine {
  /** The longest due at the end; `undefined` when it has to be formed. */
  let line: Entry[] | undefined;
  let formedBy: DueRules = { at: Number.NEGATIVE_INFINITY, types: [] };

  return {
    *take(rules) {
      const taken = new Set<Entry>();
      for (let formed = false; ; ) {
        if (line === undefined || rules.types !== formedBy.types || (line.length === 0 && !formed)) {
          formed = true;
          formedBy = rules;
          line = [...open.values()].filter((entry) => isDue(entry, rules) && !taken.has(entry));
          line.sort((a, b) => (a.record.dueAt ?? 0) - (b.record.dueAt ?? 0)).reverse();
        }
        const entry = line.pop();
        if (entry === undefined) return;
        // Who stands in line may have been claimed or settled meanwhile.
        if (open.get(entry.record.id) !== entry || !isDue(entry, rules)) continue;
        taken.add(entry);
        yield entry;
      }
    },
    note({ record: { state, dueAt } }) {
      if (state === 'parked' || (dueAt !== null && dueAt <= formedBy.at)) line = undefined;
    },
  };
}

function isDue({ record: { state, dueAt, type } }: Entry, { at, types }: DueRules): boolean {
  return state === 'parked' ? types.includes(type) : dueAt !== null && dueAt <= at;
}
