import { type EventError, StablehooksError } from './errors.js';

/** The event types that this release knows. */
export const EVENT_TYPES = [
  'accept.confirmed',
  'transfer.settled',
  'transfer.failed',
  'redeem.completed',
  'redeem.failed',
] as const;

/** One of the five event types that this release knows. */
export type EventType = (typeof EVENT_TYPES)[number];

/** A payload that no schema has checked. The service doesn't specify the contents of its payloads. */
export type UnknownPayload = Readonly<Record<string, unknown>>;

/** The fields that every event has. The object keeps any additional keys of the JSON. */
export interface EventEnvelope<Type extends string, Payload> {
  /** The event's id: the same in every delivery and in the event list, and at most 512 bytes long in UTF-8, like `type`. */
  readonly id: string;
  readonly type: Type;
  /** When the event was created, in RFC 3339. Events don't always arrive in the order in which they were created. */
  readonly created_at: string;
  readonly payload: Payload;
  /** Whether an endpoint has accepted the event. The event list includes this field, but a delivery might not. */
  readonly delivered?: boolean | undefined;
}

/** An event of a type that this release knows. A check such as `event.type === 'transfer.settled'` narrows its type. */
export type WebhookEvent<
  Type extends EventType = EventType,
  Payload = UnknownPayload,
> = Type extends EventType ? EventEnvelope<Type, Payload> : never;

/** An event of any type, including types that are newer than this release. */
export type UnknownEvent = EventEnvelope<string, UnknownPayload>;

/** An event, and whether this release knows its type. */
export type ParsedEvent =
  | { readonly known: true; readonly event: WebhookEvent }
  | { readonly known: false; readonly event: UnknownEvent };

const types: ReadonlySet<string> = new Set(EVENT_TYPES);

/** Whether this release knows an event type. */
export function isEventType(type: string): type is EventType {
  return types.has(type);
}

/** Whether this release knows the type of the event. */
export function isKnownEvent(event: UnknownEvent): event is WebhookEvent {
  return types.has(event.type);
}

/** The limit exists because a Postgres index rejects rows over 2,704 bytes. */
export const MAX_NAME_BYTES = 512;

/** Some databases change control characters and lone surrogates, so two different ids could become equal. */
const NAME = /^[^\p{Cc}\p{Cs}]+$/u;

export function isName(value: unknown): value is string {
  if (typeof value !== 'string' || !NAME.test(value)) return false;
  // A UTF-16 code unit takes up at most three bytes in UTF-8.
  return value.length * 3 <= MAX_NAME_BYTES || encoder.encode(value).length <= MAX_NAME_BYTES;
}

const encoder = new TextEncoder();

const DATE_TIME =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i;

/** Whether a value is an RFC 3339 date-time with a UTC offset and a valid calendar date. Leap seconds are rejected. */
export function isDateTime(value: unknown): value is string {
  if (typeof value !== 'string' || !DATE_TIME.test(value)) return false;
  const day = Number(value.slice(8, 10));
  return day <= 28 || new Date(`${value.slice(0, 10)}T00:00:00Z`).getUTCDate() === day;
}

/** Returns when the event was created, in epoch ms. */
export function createdAtMs(event: Pick<UnknownEvent, 'created_at'>): number {
  // Date.parse does not accept lower case.
  return Date.parse(event.created_at.toUpperCase());
}

/** Returns `[]` if the value isn't an object, or `null` if the value is a valid event. */
export function wrongFields(value: unknown): readonly string[] | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  const { id, type, created_at, payload, delivered }: { readonly [Field in keyof UnknownEvent]?: unknown } =
    value;
  const wrong: string[] = [];
  if (!isName(id)) wrong.push('id');
  if (!isName(type)) wrong.push('type');
  if (!isDateTime(created_at)) wrong.push('created_at');
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) wrong.push('payload');
  if (delivered !== undefined && typeof delivered !== 'boolean') wrong.push('delivered');
  return wrong.length === 0 ? null : wrong;
}

/**
 * Parses the body of a delivery. Verify the delivery's signature first.
 *
 * @param body - the raw bytes of the body, which must be JSON in UTF-8.
 * @returns the event as the service sent it, including any extra keys, and whether its type is known.
 * @throws {StablehooksError} `ERR_EVENT_MALFORMED` when the bytes are not UTF-8, not JSON or not an event.
 */
export function parseEvent(body: Uint8Array): ParsedEvent {
  const { event } = readEvent(body);
  return isKnownEvent(event) ? { known: true, event } : { known: false, event };
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

export function readEvent(body: Uint8Array): { readonly event: UnknownEvent; readonly json: string } {
  let json: string;
  let value: unknown;
  try {
    json = utf8.decode(body);
  } catch {
    throw malformed('it is not UTF-8');
  }
  try {
    value = JSON.parse(json);
  } catch {
    // The error has no cause, because V8's error message quotes the JSON.
    throw malformed('it is not JSON');
  }
  const wrong = wrongFields(value);
  if (wrong === null) return { event: value as UnknownEvent, json };
  const what =
    wrong.length === 0 ? 'it is not an object' : `these fields are missing or invalid: ${wrong.join(', ')}`;
  throw malformed(what, wrong);
}

/** The type of test events from `stablehooks doctor`, which a receiver ignores and doesn't store. */
export const TEST_TYPE = 'doctor.unknown';

/** The service doesn't list the events that `stablehooks doctor` sends. */
export const isTestId = (id: string): boolean => id.startsWith('evt_doctor_');

/** The JSON text that the inbox stored for each event, kept because `JSON.parse` loses precision for large numbers. */
const texts = new WeakMap<UnknownEvent, string>();

/**
 * Returns an event as JSON. For an event that an inbox returned, the result is the text that the inbox stored, unless you
 * have changed the event since.
 *
 * @throws {StablehooksError} `ERR_EVENT_MALFORMED` when the event can't be serialized (it may be nested too deeply).
 */
export function encodeEvent(event: UnknownEvent): string {
  const text = texts.get(event);
  try {
    const json = JSON.stringify(event);
    return text !== undefined && JSON.stringify(JSON.parse(text)) === json ? text : json;
  } catch {
    if (text !== undefined) return text;
    throw malformed('it cannot be serialized (it may be nested too deeply)');
  }
}

export function decodeEvent(id: string, json: string | null): UnknownEvent | null {
  const event = parseJson(json ?? 'null') as UnknownEvent | null | undefined;
  if (event?.id !== id || typeof event.type !== 'string' || !isDateTime(event.created_at)) return null;
  texts.set(event, json as string);
  return event;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function malformed(what: string, fields: readonly string[] = []): EventError {
  return new StablehooksError(
    'ERR_EVENT_MALFORMED',
    `The event is malformed: ${what}. Compare it with the events that the service lists.`,
    { fields },
  );
}

/** A schema from zod, valibot, arktype or any other library that implements Standard Schema 1 (standardschema.dev). */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
  };
}

/** The result of validating a value with a {@link StandardSchema}: the schema's output, or the issues that it found. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** A problem that a schema found in a value, and the path to the invalid part of the value. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}
