/** The events: the five known types, the envelope around them, and how bytes become one. */
import * as z from 'zod/mini';
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
  readonly delivered?: boolean;
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

/** `format: date-time` of `service.md` is RFC 3339: date, time and offset, all of them. */
const dateTime = z.iso.datetime({ offset: true });

/**
 * Control characters and lone surrogates are refused: no store keeps them faithfully, and an id that a
 * store alters can meet another id.
 */
const name = z.string().check(z.maxLength(512), z.regex(/^[^\p{Cc}\p{Cs}]+$/u));

/**
 * The envelope of `service.md`. It only judges: callers go on with the object that was judged, so that
 * keys beyond the envelope, their order and a `__proto__` key stay what they were.
 */
const envelope = z.object({
  id: name,
  type: name,
  created_at: dateTime,
  payload: z.custom<UnknownPayload>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  ),
  delivered: z.optional(z.boolean()),
});

/**
 * Judges a value from JSON: an event of a known or an unknown type.
 *
 * @throws {EventError} `ERR_EVENT_MALFORMED`, naming the fields that are wrong, never their values.
 */
export function toEvent(value: unknown): ParsedEvent {
  const judged = z.safeParse(envelope, value);
  if (!judged.success) {
    const fields = judged.error.issues.map((issue) => issue.path.join('.') || 'the whole body');
    throw malformed(`these fields are missing or wrong: ${[...new Set(fields)].join(', ')}`);
  }
  const event = value as UnknownEvent;
  return isKnownEvent(event) ? { known: true, event } : { known: false, event };
}

// Fatal, so that bytes that are not text are refused and never replaced by U+FFFD.
const utf8 = new TextDecoder('utf-8', { fatal: true });

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
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(body));
  } catch (cause) {
    // V8 quotes the text in its message: keep the kind of failure, not the words.
    const kind = cause instanceof SyntaxError ? 'it is not JSON' : 'it is not UTF-8';
    throw malformed(kind);
  }
  return toEvent(value);
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

function malformed(what: string): EventError {
  return new EventError(
    'ERR_EVENT_MALFORMED',
    `The body is not an event: ${what}. An event has id, type, created_at (RFC 3339) and payload (an object).`,
  );
}
