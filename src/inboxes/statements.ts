/** Statements name their values. The order and the placeholders of a dialect are derived here, once per statement. */

/** Values by name. Each store has its own form of lists and of `null`. */
export type Values = Readonly<Record<string, unknown>>;

/** A statement with placeholders, and the names of their values in that order. */
export interface Template {
  readonly text: string;
  readonly names: readonly string[];
  /** The name that a server keeps its plan by. @default it plans the statement each time */
  readonly name?: string | undefined;
}

export interface Statement {
  readonly text: string;
  readonly values: unknown[];
  readonly name?: string | undefined;
}

/** A name, and not a cast such as `::text`. */
const NAME = /(?<!:):([a-z]\w*)/gi;

export const namesIn = (sql: string) => [...new Set([...sql.matchAll(NAME)].map(([, name = '']) => name))];

export function place(sql: string): Template {
  return { text: sql.replaceAll(NAME, '?'), names: [...sql.matchAll(NAME)].map(([, name = '']) => name) };
}

/** Replaces each `:name` by a placeholder that has the number of its name, from 1. */
export function placeNumbered(sql: string, write: (position: number) => string): Template {
  const names = namesIn(sql);
  return { text: sql.replaceAll(NAME, (_, name) => write(names.indexOf(name) + 1)), names };
}

export function bind({ text, names, name }: Template, values: Values): Statement {
  return { text, values: names.map((each) => values[each]), name };
}

export const named = (names: readonly string[]) => names.map((name) => `:${name}`).join(', ');

/** Replaces each `:name` in the text of a procedure by the parameter `in_name`. */
export const passed = (sql: string) => sql.replaceAll(NAME, (_, name: string) => `in_${toSnake(name)}`);

/** `takeDue` is `take_due`. */
export const toSnake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
