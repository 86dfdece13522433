/** The types of handlers. */

import type { Awaitable } from '../core/awaitable.js';
import type { EventType, WebhookEvent } from '../core/events.js';
import type { Origin, SYNCHRONOUS } from '../core/ports.js';

/** The second argument of a handler. Handlers in a {@link Synchronous} transaction have no `step`. */
export type HandlerContext<Tx = undefined> = EventContext<Tx> &
  ([Tx] extends [never] ? StepContext : typeof SYNCHRONOUS extends keyof Tx ? unknown : StepContext);

/** How a step is run. */
export interface StepOptions {
  /**
   * What happens when a step began and recorded no result, because the process ended or the inbox could not be reached. Its
   * effect is then unknown.
   *
   * - `repeat`: the next attempt runs it again. Use it with {@link EventContext.idempotencyKey}.
   * - `fail`: the event is dead-lettered, until a person requeues it and states whether the effect happened. The
   *   beginning of the step is stored first. If `run` rejects, the effect is unknown as well, except for `RetryLater`,
   *   which says that nothing happened.
   *
   * @default 'repeat'
   */
  readonly onInterrupted?: 'repeat' | 'fail' | undefined;
}

/** A handler's steps. */
export interface StepContext {
  /**
   * Runs an effect outside of the database, and stores its result in the inbox: durably, before this resolves. A later
   * attempt at the event, in any process, gets the stored result and does not call `run`. A rejection stores nothing.
   *
   * The result is the value as JSON, at most 65,536 characters; `undefined` stays `undefined`. It is stored apart from
   * `tx`: a rollback does not forget it. `requeue` keeps it, and `prune` removes it.
   *
   * The handler ends when its steps have ended, even if it does not await them; one that it does not await fails it by
   * rejecting.
   *
   * Rejects with a `ConfigError` if the name was used before in this run, and with a `PermanentError` if the effect of the
   * step is unknown or its result cannot be stored.
   *
   * @param name - names the step within its handler.
   *
   * @example
   * ```ts
   * const id = await ctx.step('payout', () => bank.pay({ idempotencyKey: ctx.idempotencyKey('payout') }));
   * ```
   */
  readonly step: <Result>(
    name: string,
    run: () => Awaitable<Result>,
    options?: StepOptions,
  ) => Promise<Result>;
}

/** The facts about the event of a handler. */
export interface EventContext<Tx = undefined> {
  /** In a transactional inbox, the open transaction in which the event is marked done; otherwise `undefined`. */
  readonly tx: Tx;
  /** Aborts after `handlerTimeoutMs`. Pass it on, because another process may run the event after `leaseMs`. */
  readonly signal: AbortSignal;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Where the event came from. */
  readonly origin: Origin;
  /** Whether the transaction will be rolled back: leave out effects outside of `tx` and steps. */
  readonly isRehearsal: boolean;
  /**
   * The event's JSON. For a delivery this is exactly the signed text, even when the event runs again; for an event of the
   * list it is the text of its element. `JSON.parse` rounds large numbers in `payload`.
   */
  readonly json: string;
  /**
   * Returns the idempotency key of a call that the handler makes: a UUID, which is the same for each attempt at the event,
   * and different for each event and name. It is a hash of both: neither random nor secret.
   *
   * @param name - what the call is for, if the handler makes several: a text of 1 to 512 bytes; others are refused.
   */
  readonly idempotencyKey: (name?: string) => string;
}

/**
 * Runs the effect of one event. A returned promise is awaited; its value is ignored. Throw to have the event retried, or
 * throw `PermanentError` when a retry cannot help.
 *
 * `Tx` is the type of `ctx.tx`, such as `PoolClient` for a transactional inbox over `pg`.
 */
export type Handler<Type extends EventType = EventType, Tx = undefined> = (
  event: WebhookEvent<Type>,
  context: HandlerContext<Tx>,
) => HandlerResult<Given<Tx>>;

/** A type that is not inferred from its use. */
export type Given<Type> = [Type][Type extends unknown ? 0 : never];

type Nothing = ReturnType<() => void>;

/** What a handler may return: anything, but no promise in a {@link Synchronous} transaction. */
export type HandlerResult<Tx> = [Tx] extends [never]
  ? unknown
  : unknown extends Tx
    ? unknown
    : typeof SYNCHRONOUS extends keyof Tx
      ? Nothing | null | undefined | boolean | number | string | bigint | symbol | (object & { then?: never })
      : unknown;

/**
 * One handler per type. A new event of a type without a handler gets a 200 and is recorded as done, so all receivers
 * of an inbox need the same handlers.
 */
export type Handlers<Tx = undefined> = { readonly [Type in EventType]?: Handler<Type, Tx> };
