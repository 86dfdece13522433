import * as z from 'zod/mini';
import { EVENT_TYPES, type EventType, isDateTime, isShort, MAX_NAME_BYTES, NAME } from './core/events.js';
import { readOptions, rule } from './core/options.js';

export { limitsSchema, walletSchema } from './client/wallets.js';

const name = z.string().check(
  // In characters, for the JSON Schema.
  z.maxLength(MAX_NAME_BYTES),
  z.refine(isShort, `Too long: at most ${MAX_NAME_BYTES} bytes in UTF-8`),
  z.regex(NAME),
);
const unknownPayload = z.looseObject({});

/**
 * An event of any type, known or unknown. Keys beyond these are kept.
 *
 * `created_at` is an RFC 3339 date-time with seconds and offset. `id` and `type` have 1 to 512 bytes in UTF-8, without
 * control characters and lone surrogates.
 */
export const envelopeSchema = z.looseObject({
  id: name,
  type: name,
  created_at: z.stringFormat('date-time', isDateTime),
  payload: unknownPayload,
  delivered: z.optional(z.boolean()),
});

/** A schema of zod 4, classic or mini, for the payload of an event type. */
export type EventPayloadSchemas = { readonly [Type in EventType]?: z.core.$ZodType | undefined };

/** The schema of one event type: an object whose `type` is that string. */
export type EventSchema<Type extends EventType, Payloads> = z.ZodMiniObject<
  Omit<(typeof envelopeSchema)['shape'], 'type' | 'payload'> & {
    readonly type: z.ZodMiniLiteral<Type>;
    readonly payload: PayloadSchemaOf<Payloads, Type>;
  },
  z.core.$loose
>;

type PayloadSchemaOf<Payloads, Type extends EventType> = Type extends keyof Payloads
  ? Payloads[Type] extends z.core.$ZodType
    ? Payloads[Type]
    : typeof unknownPayload
  : typeof unknownPayload;

type EventSchemas<Types extends readonly EventType[], Payloads> = {
  readonly [Index in keyof Types]: EventSchema<Types[Index], Payloads>;
};

/** The schema that {@link webhookEventSchema} returns: a union discriminated by `type`. */
export type WebhookEventSchema<Payloads = Record<never, never>> = z.ZodMiniDiscriminatedUnion<
  EventSchemas<typeof EVENT_TYPES, Payloads>,
  'type'
>;

/**
 * Creates the schema of the five event types. `type` narrows the parsed event, `payload` included.
 *
 * @param payloads - a schema for the payload of each type, of zod 4, classic or mini. The payload of other types is an
 * object of unknown content.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when a name is not an event type or a value is not a schema.
 *
 * @example
 * ```ts
 * const schema = webhookEventSchema({ 'transfer.settled': z.object({ amount: z.string() }) });
 * const event = schema.parse(JSON.parse(body));
 * if (event.type === 'transfer.settled') console.log(event.payload.amount);
 * ```
 */
export function webhookEventSchema<const Payloads extends EventPayloadSchemas = Record<never, never>>(
  payloads?: Payloads,
): WebhookEventSchema<Payloads> {
  const payload = rule('a schema of zod 4', isZodSchema, unknownPayload);
  const schemas = readOptions<EventPayloadSchemas, Record<EventType, typeof payload>>(
    'webhookEventSchema',
    payloads ?? {},
    {
      'accept.confirmed': payload,
      'transfer.settled': payload,
      'transfer.failed': payload,
      'redeem.completed': payload,
      'redeem.failed': payload,
    },
  );
  const events: unknown = EVENT_TYPES.map((type) =>
    z.extend(envelopeSchema, { type: z.literal(type), payload: schemas[type] }),
  );
  return z.discriminatedUnion('type', events as EventSchemas<typeof EVENT_TYPES, Payloads>);
}

function isZodSchema(value: unknown): boolean {
  return typeof value === 'object' && value !== null && '_zod' in value;
}
