import type { Awaitable } from '../core/awaitable.js';
import type { EventType, WebhookEvent } from '../core/events.js';
import type { Origin, SYNCHRONOUS } from '../core/ports.js';

/** The second argument that a handler receives. It has no `step` if the transaction is {@link Synchronous}. */
export type HandlerContext<Tx = undefined> = EventContext<Tx> &
  ([Tx] extends [never] ? StepContext : typeof SYNCHRONOUS extends keyof Tx ? unknown : StepContext);

/** Options for `ctx.step`. */
export interface StepOptions {
  /**
   * What to do about a step that began but recorded no result, because the process died or the inbox was unreachable. It is
   * then unknown whether the step's effect happened.
   *
   * - `repeat`: the next attempt reruns the step. Pass {@link EventContext.idempotencyKey} to the API that the step calls,
   *   so that the API recognizes the repeated call.
   * - `fail`: the event is dead-lettered until you requeue it and say whether the effect happened. The inbox records that
   *   the step has begun before the step runs. If `run` rejects, the effect is also treated as unknown, unless the error is
   *   a `RetryLater`, so throw `RetryLater` only if nothing happened. @default 'repeat'
   */
  readonly onInterrupted?: 'repeat' | 'fail' | undefined;
}

/** The part of a handler's context that runs steps. */
export interface StepContext {
  /**
   * Runs an effect outside the database, such as an API call. The inbox durably stores the result before the promise
   * resolves. In later attempts at the event, in any process, `step` returns the stored result without calling `run`. If
   * `run` rejects, no result is stored.
   *
   * The result is stored as JSON of at most 65,536 characters. A result of `undefined` stays `undefined`. Results are
   * stored outside `tx`, so they survive a rollback. `requeue` keeps stored results, and `prune` removes them.
   *
   * A handler ends only when all its steps have ended. If a step that it doesn't await rejects, the handler fails.
   *
   * Rejects with a `ConfigError` if the handler has already used `name` in this run, and with a `PermanentError` if the
   * step can't be repeated safely or its result can't be stored.
   *
   * @param name - identifies the step. It must be unique within the handler.
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
  /** The open transaction, which also marks the event as done; `undefined` if the inbox isn't transactional. */
  readonly tx: Tx;
  /**
   * Aborts after `handlerTimeoutMs`. Pass this signal to the calls that your handler makes, so that they end before
   * `leaseMs` has passed. After that, another process can run the event.
   */
  readonly signal: AbortSignal;
  /** The number of this attempt, starting at 1. */
  readonly attempt: number;
  /** Where the event came from. */
  readonly origin: Origin;
  /** Whether this run is a rehearsal, whose transaction is rolled back. If so, skip all effects outside `tx` and steps. */
  readonly isRehearsal: boolean;
  /**
   * The event's JSON: the exact signed text of a delivered event, even in later attempts, or the event's text in the
   * service's list. Read large numbers from this text, because they lose precision in `payload`.
   */
  readonly json: string;
  /**
   * Returns an idempotency key for an API call that the handler makes. The key is a UUID that is the same in every attempt,
   * but differs by event and name. It is a hash of the event's id and the name, so it is neither random nor secret.
   *
   * @param name - distinguishes the call if the handler makes several calls. It must be a string of 1 to 512 bytes.
   */
  readonly idempotencyKey: (name?: string) => string;
}

/**
 * Handles one event. The receiver awaits a returned promise and ignores its value. To have the event retried, throw an
 * error. If a retry can't help, throw a `PermanentError`.
 *
 * `Tx` is the type of `ctx.tx`, such as `PoolClient` for a transactional inbox that uses `pg`.
 */
export type Handler<Type extends EventType = EventType, Tx = undefined> = (
  event: WebhookEvent<Type>,
  context: HandlerContext<Tx>,
) => HandlerResult<Given<Tx>>;

/** Prevents TypeScript from inferring `Type` at the place where `Given` is used. */
export type Given<Type> = [Type][Type extends unknown ? 0 : never];

type Nothing = ReturnType<() => void>;

/** Anything that a handler can return. In a {@link Synchronous} transaction, that excludes promises. */
export type HandlerResult<Tx> = [Tx] extends [never]
  ? unknown
  : unknown extends Tx
    ? unknown
    : typeof SYNCHRONOUS extends keyof Tx
      ? Nothing | null | undefined | boolean | number | string | bigint | symbol | (object & { then?: never })
      : unknown;

/**
 * One handler per event type. If the type of a new event has no handler, the receiver responds with 200 and records the
 * event as done. All receivers that share an inbox therefore need the same handlers.
 */
export type Handlers<Tx = undefined> = { readonly [Type in EventType]?: Handler<Type, Tx> };
