/** The slots of `maxConcurrency`: each running handler has one. */
export class Slots {
  #free: number;
  #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  get free(): number {
    return this.#free;
  }

  /** Takes a slot; `false` when none is free. */
  tryTake(): boolean {
    if (this.#free === 0) return false;
    this.#free -= 1;
    return true;
  }

  /** Takes a slot, once one is free. */
  async take(): Promise<void> {
    while (!this.tryTake()) await this.released();
  }

  /** Resolves when a slot is released the next time. */
  released(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  release(): void {
    this.#free += 1;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
