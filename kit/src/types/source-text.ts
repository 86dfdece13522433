import { EVENT_TYPES, type EventType } from 'stablehooks';
import { escapeControls } from '../io/output.js';
import type { Field, Shape } from './shape.js';

/** The learned payload of each event type. A missing type is not learned. */
export type LearnedPayloads = ReadonlyMap<EventType, Shape>;

/** The first line. A file without it was not written by `stablehooks types`. */
export const FIRST_LINE =
  '// Written by `stablehooks types`, which reads it again and adds the fields of new events. Delete it to start again.';

/**
 * The TypeScript module of the schemas. The same shapes make the same text: types are in the order of `EVENT_TYPES`, fields
 * and enums in alphabetical order.
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
    ...types.map(({ type, shape }) => property(`'${type}'`, toExpression(shape, 2), 2)),
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

/** An expression of zod. The fields of an object have a line each. */
function toExpression(shape: Shape, indent: number): string {
  const kinds = [
    shape.boolean && 'z.boolean()',
    shape.number && (shape.number === 'integer' ? 'z.int()' : 'z.number()'),
    shape.string && toStringExpression(shape.string),
    shape.array && `z.array(${toExpression(shape.array, indent)})`,
    shape.map && `z.record(z.string(), ${toExpression(shape.map, indent)})`,
    shape.object && toObjectExpression(shape.object, indent),
  ].filter((one) => one !== undefined);
  const [first, ...others] = kinds;
  if (first === undefined) return shape.null ? 'z.null()' : 'z.unknown()';
  const whole = others.length === 0 ? first : `z.union([${kinds.join(', ')}])`;
  return shape.null ? `z.nullable(${whole})` : whole;
}

function toStringExpression(string: 'any' | ReadonlySet<string>): string {
  return string === 'any' ? 'z.string()' : `z.enum([${[...string].sort().map(quote).join(', ')}])`;
}

function toObjectExpression(object: ReadonlyMap<string, Field>, indent: number): string {
  if (object.size === 0) return 'z.looseObject({})';
  const fields = [...object]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, { shape, optional }]) => {
      const expression = toExpression(shape, indent + 2);
      return property(toKey(key), optional ? `z.optional(${expression})` : expression, indent + 2);
    });
  return `z.looseObject({\n${fields.join('\n')}\n${' '.repeat(indent)}})`;
}

function property(key: string, expression: string, indent: number): string {
  return `${' '.repeat(indent)}${key}: ${expression},`;
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
