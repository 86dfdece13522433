import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from './effects.js';
import { NOTES, type Note, PLAN, type Plan } from './protocol.js';

export class Notes {
  readonly #folder: string;
  readonly #all: Note[] = [];
  /** When a delivery last made a call, in epoch ms. */
  lastCallAt = 0;
  /** When the last note was read, in epoch ms. The note can be about a call outside a delivery, such as a poll. */
  lastNoteAt = 0;

  constructor(folder: string) {
    this.#folder = folder;
    writeFileSync(join(folder, NOTES), '');
  }

  since(number: number): readonly Note[] {
    this.#read();
    return this.#all.slice(number);
  }

  get count(): number {
    this.#read();
    return this.#all.length;
  }

  plan(plan: Plan): void {
    writeFileSync(join(this.#folder, PLAN), JSON.stringify(plan));
  }

  clearPlan(): void {
    rmSync(join(this.#folder, PLAN), { force: true });
  }

  #read(): void {
    const lines = readFileSync(join(this.#folder, NOTES), 'utf8').split('\n');
    // The last line is either empty or still being written.
    for (const line of lines.slice(this.#all.length, -1)) {
      const note: Note = JSON.parse(line);
      this.lastNoteAt = Date.now();
      if (isOfDelivery(note)) this.lastCallAt = this.lastNoteAt;
      this.#all.push(note);
    }
  }
}

/** Leaves out the calls of endless loops, such as pollers. */
function isOfDelivery(note: Note): boolean {
  return note.note !== 'call' || note.inDelivery;
}

export function sentRows(notes: readonly Note[]): readonly Row[] {
  const keys = new Set<string>();
  return notes.flatMap((note) => {
    if (note.note !== 'sent') return [];
    const name = `${note.text} ${note.key}`;
    if (note.key !== null && keys.has(name)) return [];
    keys.add(name);
    return [[note.text]];
  });
}
