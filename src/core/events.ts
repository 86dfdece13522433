/** The events: the five known types, the envelope around them, and how bytes become one. */
import { decodeUtf8 } from '#text';
import { EventError } from './errors.js';

/** The event types of `service.md`, in its order. */
export const EVENT_TYPES = [
  'accept.confirmed',
  'transfer.settled',
  'transfer.failed',
  'redeem.completed',
  'redeem.failed',
] as const;

/** One of the five event types that this release knows. */
export type EventType = (typeof EVENT_TYPES)[number];

/** A payload that no schema has narrowed: `service.md` does not specify its content. */
export type UnknownPayload = Readonly<Record<string, unknown>>;

/** What surrounds every payload. Keys beyond these are kept on the object. */
export interface EventEnvelope<Type extends string, Payload> {
  /** Identifies the event, the same in every delivery and in the list. */
  readonly id: string;
  readonly type: Type;
  /** When the event was created: an RFC 3339 date-time. Not an order to rely on. */
  readonly created_at: string;
  readonly payload: Payload;
  /** Whether some endpoint answered well; in the list always, in a delivery perhaps. */
  readonly delivered?: boolean | undefined;
}

/** An event of a known type; `event.type === 'transfer.settled'` narrows it. */
export type WebhookEvent<
  Type extends EventType = EventType,
  Payload = UnknownPayload,
> = Type extends EventType ? EventEnvelope<Type, Payload> : never;

/** An authentic event whose type is newer than this release. */
export type UnknownEvent = EventEnvelope<string, UnknownPayload>;

/** An event, and whether this release knows its type. */
export type ParsedEvent =
  | { readonly known: true; readonly event: WebhookEvent }
  | { readonly known: false; readonly event: UnknownEvent };

const types: ReadonlySet<string> = new Set(EVENT_TYPES);

/** Whether this release knows the type. */
export function isEventType(type: string): type is EventType {
  return types.has(type);
}

/** Whether the event is of a type that this release knows. */
export function isKnownEvent(event: UnknownEvent): event is WebhookEvent {
  return types.has(event.type);
}

/**
 * What each field of the envelope of `service.md` must be. A table and not a schema, because this is judged at
 * every delivery; a test holds it to the same verdicts as the schema that it stands for.
 *
 * It only judges: callers go on with the object that was judged, so that keys beyond the envelope, their order
 * and a `__proto__` key stay what they were.
 */
const ENVELOPE: Readonly<Record<keyof UnknownEvent, (value: unknown) => boolean>> = {
  id: isName,
  type: isName,
  created_at: isDateTime,
  payload: isObject,
  delivered: (value) => value === undefined || typeof value === 'boolean',
};

const FIELDS = Object.keys(ENVELOPE) as readonly (keyof UnknownEvent)[];

const NAME = /^[^\p{Cc}\p{Cs}]+$/u;

/**
 * Control characters and lone surrogates are refused: no store keeps them faithfully, and an id that a
 * store alters can meet another id.
 */
function isName(value: unknown): boolean {
  return typeof value === 'string' && value.length <= 512 && NAME.test(value);
}

const DATE_TIME =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** `format: date-time` of `service.md` is RFC 3339: date, time and offset, all of them, of a day that exists. */
function isDateTime(value: unknown): boolean {
  if (typeof value !== 'string' || !DATE_TIME.test(value)) return false;
  const day = Number(value.slice(8, 10));
  return day <= 28 || new Date(`${value.slice(0, 10)}T00:00:00Z`).getUTCDate() === day;
}

function isObject(value: unknown): value is UnknownPayload {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Judges a value from JSON: an event of a known or an unknown type.
 *
 * @throws {EventError} `ERR_EVENT_MALFORMED`, naming the fields that are wrong, never their values.
 */
export function toEvent(value: unknown): ParsedEvent {
  if (!isObject(value)) throw malformed('it is not an object');
  const wrong = FIELDS.filter((field) => !ENVELOPE[field](value[field]));
  if (wrong.length > 0) throw malformed(`these fields are missing or wrong: ${wrong.join(', ')}`, wrong);
  const event = value as unknown as UnknownEvent;
  return isKnownEvent(event) ? { known: true, event } : { known: false, event };
}

/**
 * Reads an event from the bytes of a delivery. Verify their signature first.
 *
 * @param body - the raw bytes, UTF-8 JSON.
 * @returns the event as it was sent, extra keys included.
 * @throws {EventError} `ERR_EVENT_MALFORMED` when the bytes are not UTF-8, not JSON or not an event.
 *
 * @example
 * ```ts
 * const { known, event } = parseEvent(body);
 * ```
 */
export function parseEvent(body: Uint8Array): ParsedEvent {
  return readEvent(body).parsed;
}

/** As {@link parseEvent}, with the text that the event was read from, for an inbox to keep. */
export function readEvent(body: Uint8Array): { readonly parsed: ParsedEvent; readonly json: string } {
  let json: string;
  let value: unknown;
  try {
    json = decodeUtf8(body);
    value = JSON.parse(json);
  } catch (cause) {
    // V8 quotes the text in its message: keep the kind of failure, not the words.
    const kind = cause instanceof SyntaxError ? 'it is not JSON' : 'it is not UTF-8';
    throw malformed(kind);
  }
  return { parsed: toEvent(value), json };
}

/**
 * Writes an event as JSON text, for an inbox to keep.
 *
 * @throws {EventError} `ERR_EVENT_MALFORMED` when it is nested too deeply to be written.
 */
export function encodeEvent(event: UnknownEvent): string {
  try {
    return JSON.stringify(event);
  } catch {
    throw malformed('it is nested too deeply');
  }
}

function malformed(what: string, fields: readonly string[] = []): EventError {
  return new EventError(
    'ERR_EVENT_MALFORMED',
    `This is not an event: ${what}. An event has id, type, created_at (RFC 3339) and payload (an object).`,
    { fields },
  );
}
