/** The types of handlers. */

import type { Awaitable } from '../core/awaitable.js';
import type { EventType, WebhookEvent } from '../core/events.js';
import type { Origin, SYNCHRONOUS } from '../core/ports.js';

/** The second argument of a handler. Handlers in a {@link Synchronous} transaction have no `step`. */
export type HandlerContext<Tx = undefined> = EventContext<Tx> &
  ([Tx] extends [never] ? StepContext : typeof SYNCHRONOUS extends keyof Tx ? unknown : StepContext);

/** Options of `ctx.step`. */
export interface StepOptions {
  /**
   * What to do if a step began but recorded no result, because the process died or the inbox was unreachable. It is then
   * unknown whether the effect happened.
   *
   * - `repeat`: the next attempt runs the step again. Use this with {@link EventContext.idempotencyKey}.
   * - `fail`: the event is dead-lettered until you requeue it and say whether the effect happened. Before the step runs,
   *   the inbox stores that it has begun. If `run` rejects, the effect also counts as unknown, unless the error is
   *   `RetryLater`, which means that nothing happened.
   *
   * @default 'repeat'
   */
  readonly onInterrupted?: 'repeat' | 'fail' | undefined;
}

/** The steps of a handler. */
export interface StepContext {
  /**
   * Runs an effect outside of the database, such as an API call. The inbox durably stores its result before the promise
   * resolves. Later attempts at the event, in any process, return the stored result and don't call `run`. If `run`
   * rejects, no result is stored.
   *
   * The result is stored as JSON of at most 65,536 characters; `undefined` stays `undefined`. It isn't part of `tx`, so it
   * survives a rollback. `requeue` keeps it, and `prune` removes it.
   *
   * A handler ends only when all its steps have ended, including steps that it doesn't await. If a step that isn't awaited
   * rejects, the handler fails.
   *
   * Rejects with a `ConfigError` if the handler has already used the name in this run, and with a `PermanentError` if the
   * step's effect is unknown or its result can't be stored.
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

/** What a handler receives in addition to its event. */
export interface EventContext<Tx = undefined> {
  /** With a transactional inbox, the open transaction that also marks the event done; otherwise `undefined`. */
  readonly tx: Tx;
  /** Aborts after `handlerTimeoutMs`. Pass it to your calls, because another process may run the event after `leaseMs`. */
  readonly signal: AbortSignal;
  /** The number of this attempt, starting at 1. */
  readonly attempt: number;
  /** Where the event came from. */
  readonly origin: Origin;
  /** Whether this run is a rehearsal, which will be rolled back. If so, skip effects outside of `tx` and steps. */
  readonly isRehearsal: boolean;
  /**
   * The event's JSON. For a delivery, this is exactly the signed text, even if the event runs again. For an event from the
   * list, it is the text of its list element. Use it to read large numbers, which `JSON.parse` rounds in `payload`.
   */
  readonly json: string;
  /**
   * Returns an idempotency key for an API call that the handler makes. It is a UUID that is the same for every attempt at
   * the event, and different for every event and name. It is a hash of the two, so it is neither random nor secret.
   *
   * @param name - names the call if the handler makes several: a string of 1 to 512 bytes.
   */
  readonly idempotencyKey: (name?: string) => string;
}

/**
 * Runs the effect of one event. A returned promise is awaited; its value is ignored. Throw an error to have the event
 * retried, or a `PermanentError` if a retry can't help.
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

/** What a handler may return: anything, except a promise in a {@link Synchronous} transaction. */
export type HandlerResult<Tx> = [Tx] extends [never]
  ? unknown
  : unknown extends Tx
    ? unknown
    : typeof SYNCHRONOUS extends keyof Tx
      ? Nothing | null | undefined | boolean | number | string | bigint | symbol | (object & { then?: never })
      : unknown;

/**
 * One handler per event type. If a new event's type has no handler, the receiver responds with 200 and records the event as
 * done, so all receivers that share an inbox need the same handlers.
 */
export type Handlers<Tx = undefined> = { readonly [Type in EventType]?: Handler<Type, Tx> };
