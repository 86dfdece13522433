/** The types of handlers. */
import type { EventType, WebhookEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';

/** What a handler gets beside the event. */
export interface HandlerContext<Tx = undefined> {
  /** The open transaction in which the event is marked done, in a transactional inbox; otherwise `undefined`. */
  readonly tx: Tx;
  /** Aborts after `handlerTimeoutMs`. Pass it on: after `leaseMs` another process can run the event. */
  readonly signal: AbortSignal;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** Where the event came from. */
  readonly origin: Origin;
  /**
   * The event's JSON: at push exactly the text that was signed, even when the event runs again; `JSON.parse` rounds large numbers
   * in `payload`. An event of the list is serialized again.
   */
  readonly json: string;
}

/**
 * Runs the effect of one event. Its result is ignored, but a promise is awaited. Throw for a retry; throw
 * `PermanentError` when a retry cannot help.
 */
export type Handler<Type extends EventType = EventType, Tx = undefined> = (
  event: WebhookEvent<Type>,
  context: HandlerContext<Tx>,
) => unknown;

/**
 * One handler per type. A new event of a type without one is answered 200 and recorded as done: all receivers of an inbox
 * need the same handlers.
 */
export type Handlers<Tx = undefined> = { readonly [Type in EventType]?: Handler<Type, Tx> };
