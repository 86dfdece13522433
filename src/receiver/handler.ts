/** The types of handlers. */
import type { EventType, WebhookEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';

/** The second argument of a handler. */
export interface HandlerContext<Tx = undefined> {
  /** In a transactional inbox, the open transaction in which the event is marked done; otherwise `undefined`. */
  readonly tx: Tx;
  /** Aborts after `handlerTimeoutMs`. Pass it on, because another process can run the event after `leaseMs`. */
  readonly signal: AbortSignal;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** Where the event came from. */
  readonly origin: Origin;
  /**
   * The event's JSON. For a delivery this is exactly the signed text, even when the event runs again; for an event of the
   * list it is serialized again. `JSON.parse` rounds large numbers in `payload`.
   */
  readonly json: string;
}

/**
 * Runs the effect of one event. A returned promise is awaited; its value is ignored. Throw to have the event retried, or
 * throw `PermanentError` when a retry cannot help.
 */
export type Handler<Type extends EventType = EventType, Tx = undefined> = (
  event: WebhookEvent<Type>,
  context: HandlerContext<Tx>,
) => unknown;

/**
 * One handler per type. A new event of a type without a handler is answered 200 and recorded as done, so all receivers
 * of an inbox need the same handlers.
 */
export type Handlers<Tx = undefined> = { readonly [Type in EventType]?: Handler<Type, Tx> };
