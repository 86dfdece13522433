/** Handlers: the table that the user declares, and the types that narrow each entry's event. */
import type { EventType, UnknownPayload, WebhookEvent } from '../core/events.js';
import type { Origin } from '../core/inbox.js';
import type { StandardSchema } from '../core/standard-schema.js';

/** Schemas of payloads, one a type. */
export type PayloadSchemas = { readonly [Type in EventType]?: StandardSchema | undefined };

/** The payload of an event type: what its schema puts out, or an object of unknown content. */
export type PayloadOf<Schemas, Type extends EventType> = Type extends keyof Schemas
  ? Schemas[Type] extends StandardSchema<infer Output>
    ? Output
    : UnknownPayload
  : UnknownPayload;

/** What a handler gets beside the event. */
export interface HandlerContext<Tx = undefined> {
  /** The open transaction in which the event is marked done, in a transactional inbox; else `undefined`. */
  readonly tx: Tx;
  /** Aborts after `handlerTimeoutMs`: pass it on, because a handler that goes on can overlap its own retry. */
  readonly signal: AbortSignal;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** Which way the event came. */
  readonly origin: Origin;
}

/** Runs the effect of one event. Throw to have it again, {@link PermanentError} to give it up. */
export type Handler<Type extends EventType, Payload, Tx> = (
  event: WebhookEvent<Type, Payload>,
  context: HandlerContext<Tx>,
) => void | Promise<void>;

/** One handler a type. A type without one is answered 200 and recorded as done. */
export type Handlers<Schemas = Record<never, never>, Tx = undefined> = {
  readonly [Type in EventType]?: Handler<Type, PayloadOf<Schemas, Type>, Tx> | undefined;
};

/** The table as the receiver reads it, after the compiler has checked each entry. */
export type HandlerTable<Tx> = {
  readonly [Type in EventType]?:
    | ((event: WebhookEvent, context: HandlerContext<Tx>) => void | Promise<void>)
    | undefined;
};
