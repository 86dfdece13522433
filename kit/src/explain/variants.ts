export interface Change {
  readonly part: 'body' | 'secret' | 'signature';
  readonly what: string;
  readonly fix: string;
}

/** `changes` lists the changes that lead from the given value to this value. */
export interface Variant<Value> {
  readonly value: Value;
  readonly changes: readonly Change[];
}

export interface KnownChange<Value> extends Change {
  readonly undo: (value: Value) => Value | undefined;
}

interface SearchOptions<Value> {
  readonly changes: readonly KnownChange<Value>[];
  readonly depth: number;
  readonly keyOf: (value: Value) => string;
  readonly continues?: ((value: Value) => boolean) | undefined;
}

/** Finds each distinct value once. Values with the fewest changes come first. */
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

/** The keys of the table become the texts in `what`. */
export function toChanges<Value>(
  shared: Pick<Change, 'part' | 'fix'>,
  table: Readonly<Record<string, KnownChange<Value>['undo']>>,
): readonly KnownChange<Value>[] {
  return Object.entries(table).map(([what, undo]) => ({ ...shared, what, undo }));
}

export function orUndefined<Value>(make: () => Value): Value | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

export function toByteKey(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
