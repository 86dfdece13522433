/** The call of a handler: its context, and the meaning of its failures. */
import {
  type EventError,
  type HandlerError,
  hasCode,
  PermanentError,
  StablehooksError,
} from '../core/errors.js';
import { encodeEvent, type WebhookEvent } from '../core/events.js';
import type { Lease, Origin } from '../core/ports.js';
import type { HandlerContext } from './handler.js';
import type { Work } from './work.js';

/** The errors of a handler, as opposed to errors of the inbox around it. */
export type HandlerFault = HandlerError | PermanentError | EventError;

export function isHandlerFault(error: unknown): error is HandlerFault {
  return hasCode(error, ...FAULTS, 'ERR_EVENT_MALFORMED');
}

/** A handler can throw other errors of this package as well, which say nothing about its event. */
const FAULTS = [
  'ERR_HANDLER_FAILED',
  'ERR_HANDLER_TIMEOUT',
  'ERR_HANDLER_PERMANENT',
  'ERR_PAYLOAD_INVALID',
] as const;

/** Converts the value that a handler threw to an error of this package. */
export function toHandlerFault(event: WebhookEvent, thrown: unknown): HandlerFault {
  try {
    if (hasCode(thrown, ...FAULTS)) return thrown as HandlerFault;
    // The handler may have imported the class from the other module format of this package.
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_HANDLER_PERMANENT') {
      return new PermanentError(thrown.message, { cause: thrown });
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

/** The second argument of a handler. The signal is created on first use, because few handlers use it. */
export class Context implements HandlerContext<unknown> {
  readonly tx: unknown;
  readonly attempt: number;
  readonly origin: Origin;
  readonly json: string;
  #controller: AbortController | undefined;

  constructor({ event, origin, json }: Work, { attempt }: Lease, tx: unknown) {
    this.tx = tx;
    this.attempt = attempt;
    this.origin = origin;
    this.json = json ?? encodeEvent(event);
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
