/** Statements name their values. The order and the placeholders of a dialect are derived here, once per statement. */

/** Values by name. Each store has its own form of lists and of `null`. */
export type Values = Readonly<Record<string, unknown>>;

/** A statement with placeholders, and the names of their values in that order. */
export interface Template {
  readonly text: string;
  readonly names: readonly string[];
}

/** A statement, and the values of its placeholders. */
export interface Statement {
  readonly text: string;
  readonly values: unknown[];
}

/**
 * Replaces each `:name` in SQL by a placeholder.
 *
 * @param numbered - writes a placeholder that has a number, where a name has one number. @default `?` for each use of a name
 */
export function place(sql: string, numbered?: (position: number) => string): Template {
  const names: string[] = [];
  // Not a cast, such as `::text`.
  const text = sql.replaceAll(/(?<!:):([a-z]\w*)/gi, (_, name: string) => {
    if (numbered === undefined || !names.includes(name)) names.push(name);
    return numbered?.(names.indexOf(name) + 1) ?? '?';
  });
  return { text, names };
}

export function bind({ text, names }: Template, values: Values): Statement {
  return { text, values: names.map((name) => values[name]) };
}
