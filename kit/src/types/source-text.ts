import { EVENT_TYPES, type EventType } from 'stablehooks';
import { escapeControls } from '../io/output.js';
import type { Field, Shape } from './shape.js';

/** The learned payload of each event type. A missing type is not learned. */
export type LearnedPayloads = ReadonlyMap<EventType, Shape>;

/** The first line. A file without it was not written by `stablehooks types`. */
export const FIRST_LINE =
  '// Written by `stablehooks types`, which reads it again and adds the fields of new events. Delete it to start again.';

/**
 * The TypeScript module of the schemas, formatted as Prettier and Biome do. The same shapes make the same text: types
 * are in the order of `EVENT_TYPES`, fields and enums in alphabetical order.
 *
 * Objects are loose: a receiver accepts fields that are newer than the file, and keeps them.
 */
export function toSource(learned: LearnedPayloads): string {
  const missing = EVENT_TYPES.filter((type) => !learned.has(type));
  const types = EVENT_TYPES.flatMap((type) => {
    const shape = learned.get(type);
    return shape === undefined ? [] : [{ type, shape }];
  });
  return [
    FIRST_LINE,
    "import * as z from 'zod';",
    '',
    '/** The payloads as they were seen: pass the schema of a type to `withPayload`. */',
    'export const payloads = {',
    ...types.map(({ type, shape }) => property(`'${type}'`, toExpression(shape), 2)),
    ...missing.map((type) => `  // Not learned, because there were no events: ${type}`),
    '};',
    ...types.map(({ type }) => `\nexport type ${toName(type)} = z.output<(typeof payloads)['${type}']>;`),
    '',
  ].join('\n');
}

/** `transfer.settled` as `TransferSettled`. */
function toName(type: EventType): string {
  return type.replaceAll(/(?:^|\.)(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** An expression of zod, to be printed in one line or in several. */
type Expression =
  /** Never broken, such as `z.string()` and the values of an enum. */
  | { readonly kind: 'atom'; readonly text: string }
  | { readonly kind: 'call'; readonly name: string; readonly argument: Expression }
  /** `z.record` with its key before the argument. */
  | { readonly kind: 'record'; readonly argument: Expression }
  /** `z.union([…])` and `z.enum([…])`. */
  | { readonly kind: 'list'; readonly name: string; readonly items: readonly Expression[] }
  | { readonly kind: 'object'; readonly fields: readonly (readonly [key: string, Expression])[] };

function toExpression(shape: Shape): Expression {
  const kinds = [
    shape.boolean && atom('z.boolean()'),
    shape.number && atom(shape.number === 'integer' ? 'z.int()' : 'z.number()'),
    shape.string && toStringExpression(shape.string),
    shape.array && call('z.array', toExpression(shape.array)),
    shape.map && ({ kind: 'record', argument: toExpression(shape.map) } as const),
    shape.object && toObjectExpression(shape.object),
  ].filter((one) => one !== undefined);
  const [first, ...others] = kinds;
  if (first === undefined) return atom(shape.null ? 'z.null()' : 'z.unknown()');
  const whole: Expression =
    others.length === 0 ? first : { kind: 'list', name: 'z.union', items: [first, ...others] };
  return shape.null ? call('z.nullable', whole) : whole;
}

function toStringExpression(string: 'any' | ReadonlySet<string>): Expression {
  if (string === 'any') return atom('z.string()');
  const items = [...string].sort().map((value) => atom(quote(value)));
  return { kind: 'list', name: 'z.enum', items };
}

function toObjectExpression(object: ReadonlyMap<string, Field>): Expression {
  const fields = [...object]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, { shape, optional }]) => {
      const expression = toExpression(shape);
      return [toKey(key), optional ? call('z.optional', expression) : expression] as const;
    });
  return { kind: 'object', fields };
}

function atom(text: string): Expression {
  return { kind: 'atom', text };
}

function call(name: string, argument: Expression): Expression {
  return { kind: 'call', name, argument };
}

function toKey(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? key : quote(key);
}

/** A string literal of TypeScript, in the quotes that need fewer escapes. */
function quote(value: string): string {
  // Invisible characters could make a key look like another. JSON escapes lone surrogates.
  const json = escapeControls(JSON.stringify(value));
  if (value.includes("'") && !value.includes('"')) return json;
  const unquoted = json.slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'");
  return `'${unquoted}'`;
}

/** The longest line, as formatters count by default. */
const MAX_WIDTH = 80;

function property(key: string, value: Expression, indent: number): string {
  return `${' '.repeat(indent)}${key}: ${print(value, indent, indent + key.length + 2)},`;
}

/** @param column - where the expression begins in its line. */
function print(expression: Expression, indent: number, column: number): string {
  const line = inOneLine(expression);
  // The comma after it counts.
  if (line !== undefined && column + line.length + 1 <= MAX_WIDTH) return line;
  const inner = indent + 2;
  const [margin, end] = [' '.repeat(inner), ' '.repeat(indent)];
  const item = (one: Expression) => `${margin}${print(one, inner, inner)},\n`;
  switch (expression.kind) {
    case 'atom':
      return expression.text;
    case 'call':
      return `${expression.name}(\n${item(expression.argument)}${end})`;
    case 'record':
      return `z.record(\n${margin}z.string(),\n${item(expression.argument)}${end})`;
    case 'list':
      return `${expression.name}([\n${expression.items.map(item).join('')}${end}])`;
    case 'object': {
      const fields = expression.fields.map(([key, value]) => `${property(key, value, inner)}\n`);
      return `z.looseObject({\n${fields.join('')}${end}})`;
    }
  }
}

/** `undefined` if it contains an object with fields, which have a line each. */
function inOneLine(expression: Expression): string | undefined {
  switch (expression.kind) {
    case 'atom':
      return expression.text;
    case 'call': {
      const argument = inOneLine(expression.argument);
      return argument && `${expression.name}(${argument})`;
    }
    case 'record': {
      const argument = inOneLine(expression.argument);
      return argument && `z.record(z.string(), ${argument})`;
    }
    case 'list': {
      const items = expression.items.map(inOneLine);
      return items.every((one) => one !== undefined)
        ? `${expression.name}([${items.join(', ')}])`
        : undefined;
    }
    case 'object':
      return expression.fields.length === 0 ? 'z.looseObject({})' : undefined;
  }
}
