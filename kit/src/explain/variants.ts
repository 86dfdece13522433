/** A difference between the given value and the signed value. */
export interface Change {
  /** Which of the three inputs of a signature differs. */
  readonly part: 'body' | 'secret' | 'signature';
  /** How the given value differs from the signed value. */
  readonly what: string;
  readonly fix: string;
}

/** A value, with the changes that lead from the given value to this value. The given value itself has no changes. */
export interface Variant<Value> {
  readonly value: Value;
  readonly changes: readonly Change[];
}

/** A change to try. `undo` returns the other value, or `undefined` if the change does not apply. */
export interface KnownChange<Value> extends Change {
  readonly undo: (value: Value) => Value | undefined;
}

interface SearchOptions<Value> {
  readonly changes: readonly KnownChange<Value>[];
  /** How many successive changes to try. */
  readonly depth: number;
  /** Returns a key for a value. Values with equal keys count as the same. */
  readonly keyOf: (value: Value) => string;
  /** Whether to try further changes on a changed value. @default always */
  readonly continues?: ((value: Value) => boolean) | undefined;
}

/** Finds every distinct value that results from up to `depth` changes. Values with the fewest changes come first. */
export function listVariants<Value>(
  value: Value,
  { changes, depth, keyOf, continues = () => true }: SearchOptions<Value>,
): readonly Variant<Value>[] {
  const found = new Map<string, Variant<Value>>([[keyOf(value), { value, changes: [] }]]);
  let last: readonly Variant<Value>[] = [...found.values()];
  for (let round = 0; round < depth; round++) {
    const next: Variant<Value>[] = [];
    for (const variant of last) {
      for (const { undo, ...change } of changes) {
        const changed = undo(variant.value);
        if (changed === undefined || found.has(keyOf(changed))) continue;
        const reached = { value: changed, changes: [...variant.changes, change] };
        found.set(keyOf(changed), reached);
        if (continues(changed)) next.push(reached);
      }
    }
    last = next;
  }
  return [...found.values()];
}

/** Creates changes that share a part and a fix. The table says how to undo each difference. */
export function toChanges<Value>(
  shared: Pick<Change, 'part' | 'fix'>,
  table: Readonly<Record<string, KnownChange<Value>['undo']>>,
): readonly KnownChange<Value>[] {
  return Object.entries(table).map(([what, undo]) => ({ ...shared, what, undo }));
}

/** Returns the result of the function. If the function throws, the change does not apply, so this returns `undefined`. */
export function orUndefined<Value>(make: () => Value): Value | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** Returns a string that is equal only for equal bytes. */
export function toByteKey(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
