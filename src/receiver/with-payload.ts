import { type Awaitable, isPromise } from '../core/awaitable.js';
import { ConfigError, StablehooksError } from '../core/errors.js';
import type {
  EventType,
  SchemaIssue,
  SchemaResult,
  StandardSchema,
  UnknownPayload,
  WebhookEvent,
} from '../core/events.js';
import type { Handler, HandlerContext } from './handler.js';

/**
 * Checks the payload before the handler runs, and passes the output of the schema to the handler.
 *
 * @param schema - a Standard Schema, such as one of zod, valibot or arktype.
 * @returns a handler. It fails with `ERR_PAYLOAD_INVALID` when the payload does not match, and the event runs again once
 * the schema is corrected. The error names the fields that the schema declares, and contains nothing of the payload.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the first argument is not a schema or the second not a function.
 *
 * @example
 * ```ts
 * const handlers = {
 *   'transfer.settled': withPayload(z.object({ amount: z.string() }), ({ payload }) => book(payload.amount)),
 * };
 * ```
 */
export function withPayload<Output, Type extends EventType = EventType, Tx = undefined>(
  schema: StandardSchema<Output>,
  handler: (event: WebhookEvent<Type, Output>, context: HandlerContext<Tx>) => unknown,
): Handler<Type, Tx> {
  if (typeof schema?.['~standard']?.validate !== 'function') {
    throw new ConfigError(
      'withPayload: the first argument must be a Standard Schema, such as z.object({ … }).',
    );
  }
  if (typeof handler !== 'function') {
    throw new ConfigError('withPayload: the second argument must be a function.');
  }
  return (event, context) => {
    const run = (result: SchemaResult<Output>) => {
      if (result.issues !== undefined) return refuse(event, schema, result.issues);
      return handler({ ...event, payload: result.value } as WebhookEvent<Type, Output>, context);
    };
    const result = schema['~standard'].validate(event.payload);
    return isPromise(result) ? result.then(run) : run(result);
  };
}

/** How many issues an error names: the names of each cost further validations. */
const MAX_ISSUES = 10;

/** Synchronous where the schema is: handlers in a transaction of SQLite must not return a promise. */
function refuse(
  { type, payload }: Pick<WebhookEvent, 'type' | 'payload'>,
  schema: StandardSchema,
  issues: readonly SchemaIssue[],
): Awaitable<never> {
  const paths = issues.slice(0, MAX_ISSUES).map(({ path }) => namesOf(payload, keysOf(path)));
  const names = [...new Set(paths.flat().flatMap(({ name, isIndex }) => (isIndex ? [] : [name])))];
  const fail = (declared: readonly boolean[]): never => {
    const isKept = ({ name, isIndex }: PathName) => isIndex || declared[names.indexOf(name)];
    // Keys that the schema does not declare are content of the payload.
    const toField = (path: readonly PathName[]) => path.map((each) => (isKept(each) ? each.name : '*'));
    const fields = [...new Set(paths.map((path) => ['payload', ...toField(path)].join('.')))];
    throw new StablehooksError(
      'ERR_PAYLOAD_INVALID',
      `The payload of ${type} does not match its schema at ${fields.join(', ')}. Correct the schema; the event runs again.`,
      // Without the issues: some libraries quote the value.
      { fields },
    );
  };
  const answers = names.map((name) => declares(schema, payload, name));
  return answers.some(isPromise) ? Promise.all(answers).then(fail) : fail(answers as boolean[]);
}

function keysOf(path: SchemaIssue['path'] = []): readonly PropertyKey[] {
  return path.map((part) => (typeof part === 'object' ? part.key : part));
}

interface PathName {
  readonly name: string;
  /** Whether it is an index of an array of the payload. */
  readonly isIndex: boolean;
}

function namesOf(payload: UnknownPayload, keys: readonly PropertyKey[]): readonly PathName[] {
  let parent: unknown = payload;
  return keys.map((key) => {
    const isIndex = typeof key === 'number' && Array.isArray(parent);
    parent = Object(parent)[key];
    return { name: typeof key === 'symbol' ? '*' : String(key), isIndex };
  });
}

/**
 * Whether the schema declares the name: the payload does not have it, or no issue follows when every occurrence in the
 * payload is replaced.
 */
function declares(schema: StandardSchema, payload: UnknownPayload, name: string): Awaitable<boolean> {
  const other = similarName(name);
  const isDeclared = ({ issues = [] }: SchemaResult<unknown>) =>
    !issues.some(({ path }) => keysOf(path).some((key) => String(key) === other));
  try {
    if (!JSON.stringify(payload).includes(JSON.stringify(name))) return true;
    const result = schema['~standard'].validate(rename(payload, name, other));
    return isPromise(result) ? result.then(isDeclared, () => false) : isDeclared(result);
  } catch {
    return false;
  }
}

/** A name of the same form, which a pattern for keys accepts as well: with another last letter or digit. */
function similarName(name: string): string {
  const at = name.search(/[a-z\d](?=[^a-z\d]*$)/i);
  if (at === -1) return `${name}x`;
  const code = name.charCodeAt(at);
  const [first, count] = code <= 0x39 ? [0x30, 10] : code <= 0x5a ? [0x41, 26] : [0x61, 26];
  const other = first + ((code - first + count / 2) % count);
  return name.slice(0, at) + String.fromCharCode(other) + name.slice(at + 1);
}

/** A copy of the value in which each key and string equal to `name` is replaced. */
function rename(value: unknown, name: string, other: string): unknown {
  if (value === name) return other;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => rename(item, name, other));
  const members = Object.entries(value).map(([key, member]) => [
    key === name ? other : key,
    rename(member, name, other),
  ]);
  return Object.fromEntries(members);
}
