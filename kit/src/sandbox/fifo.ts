/** `shift` takes constant time on average. The oldest item is at index 0. */
export class Fifo<Item> {
  #items: (Item | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    // The other items move only when half of the array is empty, so that the cost is spread over as many shifts.
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  at(index: number): Item | undefined {
    return this.#items[this.#head + index];
  }

  toArray(): readonly Item[] {
    return this.#items.slice(this.#head) as Item[];
  }
}
