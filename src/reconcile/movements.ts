import type { UnknownEvent } from '../core/events.js';

/** Finds movements that have several events of the same type. */
export class Movements {
  readonly #keyOf: (event: UnknownEvent) => unknown;
  /** The event ids for each type and key, joined in a string, because a set for each key would take far more memory. */
  readonly #ids = new Map<string, string>();

  constructor(keyOf: (event: UnknownEvent) => unknown) {
    this.#keyOf = keyOf;
  }

  add(event: UnknownEvent): void {
    const key = this.#keyOf(event);
    if (typeof key !== 'string' && typeof key !== 'number') return;
    const movement = `${event.type} ${key}`;
    const known = this.#ids.get(movement);
    if (known === undefined) this.#ids.set(movement, event.id);
    else if (!known.split('\n').includes(event.id)) this.#ids.set(movement, `${known}\n${event.id}`);
  }

  *repeated(): Generator<readonly string[]> {
    for (const ids of this.#ids.values()) if (ids.includes('\n')) yield ids.split('\n');
  }
}
