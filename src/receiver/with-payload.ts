import { isPromise, wrapping } from '../core/awaitable.js';
import { ConfigError, StablehooksError } from '../core/errors.js';
import type { EventType, SchemaIssue, SchemaResult, StandardSchema, WebhookEvent } from '../core/events.js';
import type { Given, Handler, HandlerContext, HandlerResult } from './handler.js';

/**
 * Validates the payload before the handler runs, and passes the schema's output to the handler.
 *
 * @param schema - a Standard Schema, for example from zod, valibot or arktype.
 * @returns a handler that fails with `ERR_PAYLOAD_INVALID` if the payload doesn't match the schema. The event is retried
 * later, so you have time to correct the schema. The error names only fields that the schema declares, and contains
 * no values from the payload.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `schema` is not a Standard Schema, or `handler` is not a function.
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
  handler: (event: WebhookEvent<Type, Output>, context: HandlerContext<Tx>) => HandlerResult<Given<Tx>>,
): Handler<Type, Tx> {
  if (typeof Object(schema)['~standard']?.validate !== 'function' || typeof handler !== 'function') {
    throw new ConfigError(
      'withPayload: pass a Standard Schema (for example from zod, valibot or arktype) and a handler. Check the imports of both.',
    );
  }
  let declared: Declared | undefined;
  const checked = (event: WebhookEvent<Type>, context: HandlerContext<Tx>): unknown => {
    const run = (result: SchemaResult<Output>) => {
      if (result.issues === undefined) {
        return handler({ ...event, payload: result.value } as WebhookEvent<Type, Output>, context);
      }
      declared ??= declaredBy(schema);
      throw mismatch(event, result.issues, declared);
    };
    const result = schema['~standard'].validate(event.payload);
    return isPromise(result) ? result.then(run) : run(result);
  };
  return wrapping(handler, checked as Handler<Type, Tx>);
}

/** Whether a name comes from the schema, not from the payload. */
type Declared = (name: string) => boolean;

/** Shows `*` in place of each key that may come from the payload. */
function mismatch(
  { type, payload }: Pick<WebhookEvent, 'type' | 'payload'>,
  issues: readonly SchemaIssue[],
  isDeclared: Declared,
): StablehooksError<'ERR_PAYLOAD_INVALID'> {
  const toField = ({ path = [] }: SchemaIssue) => {
    let parent: unknown = payload;
    const names = path.slice(0, MAX_SHOWN).map((part) => {
      const key = typeof part === 'object' ? part.key : part;
      const isIndex = Array.isArray(parent) && typeof key === 'number';
      parent = Object(parent)[key];
      return isIndex || isDeclared(String(key)) ? String(key) : '*';
    });
    return ['payload', ...names].join('.');
  };
  const fields = [...new Set(issues.slice(0, MAX_SHOWN).map(toField))];
  return new StablehooksError(
    'ERR_PAYLOAD_INVALID',
    `The payload of ${type} does not match its schema at ${fields.join(', ')}. Correct the schema; the event will run again.`,
    // The issues are left out, because some libraries quote the value in them.
    { fields },
  );
}

const MAX_SHOWN = 10;

/** Accepts names in the JSON Schema if the library offers one (`standardschema.dev/json-schema`), otherwise plain words. */
function declaredBy(schema: StandardSchema): Declared {
  type Convert = (options: object) => unknown;
  const { jsonSchema }: { jsonSchema?: Record<'input' | 'output', Convert> } = Object(schema['~standard']);
  const isWord: Declared = (name) => /^[a-z_-]{1,64}$/i.test(name);
  if (jsonSchema === undefined) return isWord;
  try {
    // Without this option, zod throws for types that JSON Schema lacks, such as dates.
    const options = { target: 'draft-2020-12', libraryOptions: { unrepresentable: 'any' } };
    const text = JSON.stringify([jsonSchema.input(options), jsonSchema.output(options)]);
    return (name) => text.includes(JSON.stringify(name));
  } catch {
    return isWord;
  }
}
