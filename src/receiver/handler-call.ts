/** The call of a handler: its context, and the meaning of its failures. */
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
import { createSteps, type HandlerSteps, type StepParts } from './steps.js';
import type { Work } from './work.js';

/** The errors of a handler, as opposed to errors of the inbox around it. */
export type HandlerFault = HandlerError | PermanentError | RetryLater | EventError;

export function isHandlerFault(error: unknown): error is HandlerFault {
  return hasCode(error, ...FAULTS, 'ERR_EVENT_MALFORMED');
}

/** A handler can throw other errors of this package as well, which say nothing about its event. */
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
    // The handler may have imported the class from the other module format of this package.
    if (thrown instanceof Error && 'code' in thrown) {
      const { code, message: reason, retryAfterMs } = thrown as RetryLater | PermanentError;
      if (code === 'ERR_HANDLER_PERMANENT') return new PermanentError(reason, { cause: thrown });
      if (code === 'ERR_HANDLER_LATER') return new RetryLater({ afterMs: Number(retryAfterMs), reason });
    }
  } catch {
    // A thrown value can be unreadable: a getter that throws, a message that is not a string.
  }
  return new StablehooksError(
    'ERR_HANDLER_FAILED',
    `The handler of ${event.type} threw; see the cause. The event runs again; throw PermanentError if that cannot help.`,
    { cause: thrown },
  );
}

/** The second argument of a handler. Its signal and steps are created on first use, because few handlers use them. */
export class Context implements HandlerContext<unknown> {
  readonly tx: unknown;
  readonly attempt: number;
  readonly origin: Origin;
  readonly json: string;
  /** Exists once the handler has used a step. */
  steps: HandlerSteps | undefined;
  readonly #lease: Lease;
  readonly #parts: StepParts;
  readonly #askedAt: Moment;
  #controller: AbortController | undefined;

  constructor({ event, origin, json }: Work, lease: Lease, tx: unknown, parts: StepParts, askedAt: Moment) {
    this.tx = tx;
    this.attempt = lease.attempt;
    this.origin = origin;
    this.json = json ?? encodeEvent(event);
    this.#lease = lease;
    this.#parts = parts;
    this.#askedAt = askedAt;
  }

  get step(): StepContext['step'] {
    const { store } = this.#parts;
    const run: HandlerSteps['run'] = (...call) => {
      // Thrown, because a synchronous handler does not await the answer.
      store.assertSteps();
      this.steps ??= createSteps(this.#parts, this.#lease, this.#askedAt);
      return this.steps.run(...call);
    };
    return run as StepContext['step'];
  }

  get idempotencyKey(): (name?: string) => string {
    return (name = '') => toIdempotencyKey(this.#lease.id, name);
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
