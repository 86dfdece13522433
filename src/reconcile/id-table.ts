/** A number for each id, without an object for each: a map of a million strings takes twice the memory. */
export interface IdTable {
  readonly size: number;
  get(id: string): number | undefined;
  /** @param value - an integer from 0 to 2³² − 1. */
  set(id: string, value: number): void;
  /** In no order. Nothing must be set meanwhile. */
  [Symbol.iterator](): IterableIterator<readonly [id: string, value: number]>;
}

/** The characters of ids are in chunks, one byte each, after a byte with their number. */
const CHUNK_BYTES = 2 ** 20;

/** Ids that do not fit into bytes are rare, and are kept as strings. */
const PACKABLE = /^[\0-\u00ff]{0,255}$/;

/**
 * A hash table with open addressing. Ids that collide are told apart by their characters, all of which are kept: two
 * ids are never taken for one.
 */
export function createIdTable(): IdTable {
  const others = new Map<string, number>();
  const chunks: Uint8Array[] = [];
  let used = CHUNK_BYTES;
  let count = 0;
  /** The number of an entry plus 1, or 0 for none. More than half of them are free. */
  let slots = new Uint32Array(2 ** 10);
  /** By entry: the chunk and the offset in it, as one number. */
  let places = new Uint32Array(slots.length / 2);
  let values = new Uint32Array(slots.length / 2);

  function byteAt(place: number): number {
    return chunks[Math.floor(place / CHUNK_BYTES)]?.[place % CHUNK_BYTES] ?? 0;
  }

  function isAt(place: number, id: string): boolean {
    if (byteAt(place) !== id.length) return false;
    for (let index = 0; index < id.length; index += 1) {
      if (byteAt(place + 1 + index) !== id.charCodeAt(index)) return false;
    }
    return true;
  }

  function read(place: number): string {
    const chunk = chunks[Math.floor(place / CHUNK_BYTES)] ?? new Uint8Array();
    const start = (place % CHUNK_BYTES) + 1;
    return String.fromCharCode(...chunk.subarray(start, start + byteAt(place)));
  }

  /** The slot that has the id, or the free one where it belongs. */
  function slotOf(id: string): number {
    for (let slot = hash(id); ; slot += 1) {
      const entry = slots[slot % slots.length] ?? 0;
      if (entry === 0 || isAt(places[entry - 1] ?? 0, id)) return slot % slots.length;
    }
  }

  function append(id: string): number {
    if (used + id.length + 1 > CHUNK_BYTES) {
      chunks.push(new Uint8Array(CHUNK_BYTES));
      used = 0;
    }
    const chunk = chunks.at(-1) ?? new Uint8Array();
    const place = (chunks.length - 1) * CHUNK_BYTES + used;
    chunk[used] = id.length;
    for (let index = 0; index < id.length; index += 1) chunk[used + 1 + index] = id.charCodeAt(index);
    used += id.length + 1;
    return place;
  }

  function grow(): void {
    slots = new Uint32Array(slots.length * 2);
    places = resize(places, slots.length / 2);
    values = resize(values, slots.length / 2);
    for (let entry = 0; entry < count; entry += 1) slots[slotOf(read(places[entry] ?? 0))] = entry + 1;
  }

  return {
    get size() {
      return count + others.size;
    },
    get(id) {
      if (!PACKABLE.test(id)) return others.get(id);
      const entry = slots[slotOf(id)] ?? 0;
      return entry === 0 ? undefined : values[entry - 1];
    },
    set(id, value) {
      if (!PACKABLE.test(id)) {
        others.set(id, value);
        return;
      }
      const slot = slotOf(id);
      const entry = slots[slot] ?? 0;
      if (entry > 0) {
        values[entry - 1] = value;
        return;
      }
      places[count] = append(id);
      values[count] = value;
      count += 1;
      slots[slot] = count;
      if (count === places.length) grow();
    },
    *[Symbol.iterator]() {
      for (let entry = 0; entry < count; entry += 1) {
        yield [read(places[entry] ?? 0), values[entry] ?? 0] as const;
      }
      yield* others;
    },
  };
}

function resize(array: Uint32Array<ArrayBuffer>, length: number): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(length);
  larger.set(array);
  return larger;
}

/** FNV-1a, 32 bits, with the high bits mixed into the low ones. */
function hash(id: string): number {
  let bits = 0x811c9dc5;
  for (let index = 0; index < id.length; index += 1)
    bits = Math.imul(bits ^ id.charCodeAt(index), 0x01000193);
  bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b3c6d);
  return (bits ^ (bits >>> 13)) >>> 0;
}
