import { type Awaitable, isPromise } from '../core/awaitable.js';
import {
  type EventError,
  type HandlerError,
  hasCode,
  PermanentError,
  RetryLater,
  StablehooksError,
} from '../core/errors.js';
import { encodeEvent, type WebhookEvent } from '../core/events.js';
import type { Lease, Origin } from '../core/ports.js';
import type { Moment } from '../core/runtime.js';
import type { HandlerContext, StepContext } from './handler.js';
import { toIdempotencyKey } from './idempotency-key.js';
import type { CoreParts } from './parts.js';
import { createSteps, type HandlerSteps } from './steps.js';
import type { Work } from './work.js';

export type HandlerFault = HandlerError | PermanentError | RetryLater | EventError;

export function isHandlerFault(error: unknown): error is HandlerFault {
  return hasCode(error, ...FAULTS, 'ERR_EVENT_MALFORMED');
}

/** A handler can also throw other errors from this package, but those say nothing about its event. */
const FAULTS = [
  'ERR_HANDLER_FAILED',
  'ERR_HANDLER_TIMEOUT',
  'ERR_HANDLER_PERMANENT',
  'ERR_HANDLER_LATER',
  'ERR_PAYLOAD_INVALID',
] as const;

export function toHandlerFault(event: WebhookEvent, thrown: unknown): HandlerFault {
  try {
    if (hasCode(thrown, ...FAULTS)) return thrown as HandlerFault;
    // The handler may have imported the error class from the other module format (ESM or CommonJS) of this package.
    if (thrown instanceof Error && 'code' in thrown) {
      const { code, message: reason, retryAfterMs } = thrown as RetryLater | PermanentError;
      if (code === 'ERR_HANDLER_PERMANENT') return new PermanentError(reason, { cause: thrown });
      if (code === 'ERR_HANDLER_LATER') return new RetryLater({ afterMs: Number(retryAfterMs), reason });
    }
  } catch {
    // The thrown value is unreadable, for example because one of its getters throws.
  }
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    `The handler for ${event.type} threw an error; see the cause. The event will run again. If a retry cannot help, throw PermanentError instead.`,
    { cause: thrown },
  );
}

export class HandlerCall {
  readonly timeUp: Promise<HandlerError>;
  /** Until the handler ended or reached its time limit, whichever came first. */
  handlerMs: number | undefined;
  state: 'waiting' | 'running' | 'returned' = 'waiting';
  timeout: HandlerError | undefined;
  readonly #parts: CoreParts;
  readonly #work: Work & { readonly event: WebhookEvent };
  readonly #lease: Lease;
  readonly #limits: CallLimits;
  #onTimeUp: (error: HandlerError) => void = () => {};

  constructor(
    parts: CoreParts,
    work: Work & { readonly event: WebhookEvent },
    lease: Lease,
    limits: CallLimits,
  ) {
    this.#parts = parts;
    this.#work = work;
    this.#lease = lease;
    this.#limits = limits;
    this.timeUp = new Promise((resolve) => {
      this.#onTimeUp = resolve;
    });
  }

  /** Synchronous if the handler is, because a SQLite transaction ends when `run` returns. */
  run(tx: unknown): Awaitable<void> {
    const { callHandler, settings } = this.#parts;
    const { runtime } = settings;
    const { event } = this.#work;
    const context = new Context(this.#work, this.#lease, { tx, parts: this.#parts, ...this.#limits });
    const startedAt = runtime.elapsed();
    this.state = 'running';
    const stop = () => {
      runtime.clearTimeout(timer);
      // The first value is kept, because for an overdue handler it has already been reported.
      this.handlerMs ??= Math.round(runtime.elapsed() - startedAt);
    };
    const timer = runtime.setTimeout(() => {
      this.timeout = handlerTimeout(event, this.#limits.limitMs, this.#parts.store.hasTransactions);
      this.handlerMs = Math.round(runtime.elapsed() - startedAt);
      this.#onTimeUp(this.timeout);
      context.abort(this.timeout);
    }, this.#limits.limitMs);
    let running: unknown;
    try {
      running = callHandler(event, this.#lease, context);
      if (!isPromise(running) && context.steps === undefined) {
        this.state = 'returned';
        return stop();
      }
    } catch (thrown) {
      if (context.steps === undefined) {
        stop();
        throw toHandlerFault(event, thrown);
      }
      // The handler threw an error, but it counts as running until its steps have ended.
      running = Promise.reject(thrown);
    }
    return this.#end(running, context).finally(stop);
  }

  /** Also waits for steps that the handler did not await. */
  async #end(running: unknown, context: Context): Promise<void> {
    let failure: { readonly error: unknown } | undefined;
    try {
      await running;
    } catch (error) {
      failure = { error };
    }
    failure = (await context.steps?.end()) ?? failure;
    if (failure !== undefined) throw toHandlerFault(this.#work.event, failure.error);
    this.state = 'returned';
  }
}

interface CallLimits {
  readonly limitMs: number;
  readonly askedAt: Moment;
}

function handlerTimeout(event: WebhookEvent, timeoutMs: number, hasTx: boolean): HandlerError {
  const advice = hasTx
    ? ' In a transaction, run queries through `tx`, because the pool may have no other free connection.'
    : '';
  return new StablehooksError(
    'ERR_HANDLER_TIMEOUT',
    `The handler for ${event.type} is still running after ${Math.round(timeoutMs)} ms. No other process will run the event until the handler ends or the lease expires. Pass \`signal\` to the calls that the handler waits for, raise handlerTimeoutMs, or use a queue.${advice}`,
  );
}

/** `signal` and `steps` are created on first use, because few handlers need them. */
class Context implements HandlerContext<unknown> {
  readonly tx: unknown;
  readonly attempt: number;
  readonly origin: Origin;
  readonly json: string;
  readonly isRehearsal = false;
  steps: HandlerSteps | undefined;
  readonly #lease: Lease;
  readonly #parts: CoreParts;
  readonly #askedAt: Moment;
  #controller: AbortController | undefined;

  constructor(
    { event, origin, json }: Work,
    lease: Lease,
    { tx, parts, askedAt }: Pick<CallLimits, 'askedAt'> & { readonly tx: unknown; readonly parts: CoreParts },
  ) {
    this.tx = tx;
    this.attempt = lease.attempt;
    this.origin = origin;
    this.json = json ?? lease.first?.json ?? encodeEvent(event);
    this.#lease = lease;
    this.#parts = parts;
    this.#askedAt = askedAt;
  }

  get step(): StepContext['step'] {
    const { store } = this.#parts;
    const run: HandlerSteps['run'] = (...call) => {
      // This throws instead of rejecting, because a synchronous handler does not await the returned promise.
      store.assertSteps();
      this.steps ??= createSteps(this.#parts, this.#lease, this.#askedAt);
      return this.steps.run(...call);
    };
    return run as StepContext['step'];
  }

  get idempotencyKey(): (name?: string) => string {
    return (...name) => toIdempotencyKey(this.#lease.id, ...name);
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    return this.#controller.signal;
  }

  abort(reason: HandlerError): void {
    this.#controller ??= new AbortController();
    this.#controller.abort(reason);
  }
}
