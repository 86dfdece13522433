/** Variants: a value as it may have been before or after something on its way changed it. */

/** One way in which a value can differ from what was signed, and the fix. */
export interface Change {
  /** Which of the three things that a signature ties together was changed. */
  readonly part: 'body' | 'secret' | 'signature';
  /** What is different in the value at hand. */
  readonly what: string;
  /** What to do about it. */
  readonly fix: string;
}

/** A value, and the changes that lead from the one at hand to it; none for the value itself. */
export interface Variant<Value> {
  readonly value: Value;
  readonly changes: readonly Change[];
}

/** A change that can be tried: gives the other value, or `undefined` where it does not apply. */
export interface Attempt<Value> extends Change {
  readonly apply: (value: Value) => Value | undefined;
}

/**
 * Every distinct value that up to `depth` attempts in a row lead to, those with the fewest changes first.
 *
 * @param keyOf - two values with the same key are the same.
 * @param goesOn - whether more attempts are made on a value that one led to. @default always
 */
export function listVariants<Value>(
  value: Value,
  {
    attempts,
    depth,
    keyOf,
    goesOn = () => true,
  }: {
    readonly attempts: readonly Attempt<Value>[];
    readonly depth: number;
    readonly keyOf: (value: Value) => string;
    readonly goesOn?: (value: Value) => boolean;
  },
): readonly Variant<Value>[] {
  const found = new Map<string, Variant<Value>>([[keyOf(value), { value, changes: [] }]]);
  let last: readonly Variant<Value>[] = [...found.values()];
  for (let round = 0; round < depth; round++) {
    const next: Variant<Value>[] = [];
    for (const variant of last) {
      for (const { apply, ...change } of attempts) {
        const changed = apply(variant.value);
        if (changed === undefined || found.has(keyOf(changed))) continue;
        const reached = { value: changed, changes: [...variant.changes, change] };
        found.set(keyOf(changed), reached);
        if (goesOn(changed)) next.push(reached);
      }
    }
    last = next;
  }
  return [...found.values()];
}

/** Writes attempts that share a part and a fix as a table: what is different, and how to undo it. */
export function toAttempts<Value>(
  shared: Pick<Change, 'part' | 'fix'>,
  table: Readonly<Record<string, Attempt<Value>['apply']>>,
): readonly Attempt<Value>[] {
  return Object.entries(table).map(([what, apply]) => ({ ...shared, what, apply }));
}

/** What `make` makes, or `undefined` where it throws: the attempt does not apply. */
export function whereItWorks<Value>(make: () => Value): Value | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}

/** Bytes as a key to compare by. */
export function toByteKey(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
