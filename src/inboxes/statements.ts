/** Statements refer to their values by name. Each statement is rewritten once with the placeholders of a dialect. */

/** Each store passes lists and `null` in its own form. */
export type Values = Readonly<Record<string, unknown>>;

/** The names are in the order of the placeholders. */
export interface Template {
  readonly text: string;
  readonly names: readonly string[];
  /** The name under which a server keeps the statement's plan. @default the server plans the statement each time */
  readonly name?: string | undefined;
}

export interface Statement {
  readonly text: string;
  readonly values: unknown[];
  readonly name?: string | undefined;
}

/** Matches a name such as `:id`, but not a cast such as `::text`. */
const NAME = /(?<!:):([a-z]\w*)/gi;

export const namesIn = (sql: string) => [...new Set([...sql.matchAll(NAME)].map(([, name = '']) => name))];

export function place(sql: string): Template {
  return { text: sql.replaceAll(NAME, '?'), names: [...sql.matchAll(NAME)].map(([, name = '']) => name) };
}

/** Placeholder numbers start at 1, and all uses of a name have the same number. */
export function placeNumbered(sql: string, write: (position: number) => string): Template {
  const names = namesIn(sql);
  return { text: sql.replaceAll(NAME, (_, name) => write(names.indexOf(name) + 1)), names };
}

export function bind({ text, names, name }: Template, values: Values): Statement {
  return { text, values: names.map((each) => values[each]), name };
}

export const named = (names: readonly string[]) => names.map((name) => `:${name}`).join(', ');

/** In the text of a procedure, `:name` becomes the parameter `in_name`. */
export const passed = (sql: string) => sql.replaceAll(NAME, (_, name: string) => `in_${toSnake(name)}`);

export const toSnake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
