/** What the preload has noted, read as it grows. */
import { closeSync, openSync, readSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from './effects.js';
import { NOTES, type Note, PLAN, type Plan } from './protocol.js';

export class Notes {
  readonly #folder: string;
  readonly #all: Note[] = [];
  #offset = 0;
  #rest = '';
  /** When the last call of a delivery was seen, in epoch ms. */
  lastCallAt = 0;
  /** When anything was seen, such as a poll. */
  lastNoteAt = 0;

  constructor(folder: string) {
    this.#folder = folder;
    writeFileSync(join(folder, NOTES), '');
  }

  /** The notes from this number on. */
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

  /** Removes a plan that no delivery has taken. */
  clearPlan(): void {
    rmSync(join(this.#folder, PLAN), { force: true });
  }

  #read(): void {
    const file = openSync(join(this.#folder, NOTES), 'r');
    const chunk = Buffer.alloc(65_536);
    try {
      for (let size = 1; size > 0; ) {
        size = readSync(file, chunk, 0, chunk.length, this.#offset);
        this.#offset += size;
        this.#rest += chunk.toString('latin1', 0, size);
      }
    } finally {
      closeSync(file);
    }
    const lines = this.#rest.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      const note: Note = JSON.parse(Buffer.from(line, 'latin1').toString());
      if (note.note === 'sent' || (note.note === 'call' && note.point.by === 'app') || isOfDelivery(note))
        this.lastCallAt = Date.now();
      this.lastNoteAt = Date.now();
      this.#all.push(note);
    }
  }
}

function isOfDelivery(note: Note): boolean {
  return note.note === 'arrived' || (note.note === 'call' && note.inDelivery);
}

/** The requests as rows of effects: a repetition with the same key has no second effect. */
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
