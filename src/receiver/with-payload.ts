import { type Awaitable, isPromise } from '../core/awaitable.js';
import { ConfigError, EventError } from '../core/errors.js';
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
 * Checks the payload before the handler runs, and narrows it to the output of the schema.
 *
 * @param schema - a Standard Schema, such as one of zod, valibot or arktype.
 * @returns a handler. It fails with `ERR_PAYLOAD_INVALID` when the payload does not match, so the event runs again
 * once the schema is corrected. The error names the fields that the schema declares, and no content of the payload.
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

/** How many issues an error names: each is looked up by further validations. */
const MAX_ISSUES = 10;

async function refuse(
  { type, payload }: Pick<WebhookEvent, 'type' | 'payload'>,
  schema: StandardSchema,
  issues: readonly SchemaIssue[],
): Promise<never> {
  const fields = new Set<string>();
  for (const { path = [] } of issues.slice(0, MAX_ISSUES)) {
    const keys = path.map((part) => (typeof part === 'object' ? part.key : part));
    fields.add(['payload', ...(await toNames(schema, payload, keys))].join('.'));
  }
  throw new EventError(
    'ERR_PAYLOAD_INVALID',
    `The payload of ${type} does not match its schema at ${[...fields].join(', ')}. Correct the schema; the event runs again.`,
    // Without the issues: some libraries quote the value.
    { fields: [...fields] },
  );
}

/** The path of an issue; keys that the schema does not declare are content of the payload, and become `*`. */
async function toNames(
  schema: StandardSchema,
  payload: UnknownPayload,
  keys: readonly PropertyKey[],
): Promise<readonly string[]> {
  const names: string[] = [];
  for (const [index, key] of keys.entries()) {
    const isDeclared =
      typeof key === 'number' || (await isDeclaredName(schema, payload, keys.slice(0, index + 1)));
    names.push(isDeclared ? String(key) : '*');
  }
  return names;
}

/** Whether the issue does not follow the last key when the payload has it under another name, as in a record it would. */
async function isDeclaredName(
  schema: StandardSchema,
  payload: UnknownPayload,
  keys: readonly PropertyKey[],
): Promise<boolean> {
  const other = `other_${crypto.randomUUID()}`;
  try {
    const renamed = rename(payload, keys, other);
    const { issues = [] } = await (schema['~standard'].validate(renamed) as Awaitable<SchemaResult<unknown>>);
    return !issues.some(({ path = [] }) =>
      path.some((part) => (typeof part === 'object' ? part.key : part) === other),
    );
  } catch {
    return false;
  }
}

/** A copy of the value whose member at the path has another name. */
function rename(value: unknown, [key, ...rest]: readonly PropertyKey[], other: string): unknown {
  if (key === undefined || typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value))
    return value.map((item, index) => (index === key ? rename(item, rest, other) : item));
  const members = Object.entries(value).map(([name, member]) => {
    if (name !== String(key)) return [name, member];
    return rest.length === 0 ? [other, member] : [name, rename(member, rest, other)];
  });
  return Object.fromEntries(members);
}
