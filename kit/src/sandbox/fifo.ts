/** A queue that gives up its oldest entry in constant time, for what waits and for what is kept within a bound. */

/** First in, first out; entries are also read by their place, the oldest at 0. */
export class Fifo<Entry> {
  #entries: (Entry | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#entries.length - this.#head;
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
  }

  /** Takes the oldest entry out. */
  shift(): Entry | undefined {
    if (this.length === 0) return undefined;
    const entry = this.#entries[this.#head];
    this.#entries[this.#head++] = undefined;
    // Moving the rest only when half is empty spreads its cost over as many shifts.
    if (this.#head > 64 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    return entry;
  }

  at(index: number): Entry | undefined {
    return this.#entries[this.#head + index];
  }

  toArray(): readonly Entry[] {
    return this.#entries.slice(this.#head) as Entry[];
  }
}
