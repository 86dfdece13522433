/** One attempt at one event: the payload's schema, then the handler, within a time limit. */
import { EventError, HandlerError, PermanentError } from '../core/errors.js';
import type { WebhookEvent } from '../core/events.js';
import type { StandardSchema } from '../core/standard-schema.js';
import type { HandlerContext } from './handlers.js';
import type { ReceiverRules } from './options.js';

/** What an attempt needs beside the event. */
export interface AttemptOptions<Tx> {
  readonly rules: Pick<ReceiverRules<Tx>, 'handlers' | 'payloads' | 'handlerTimeoutMs'>;
  readonly context: Omit<HandlerContext<Tx>, 'signal'>;
}

/**
 * Runs the event's handler, if there is one.
 *
 * @returns whether there was one.
 * @throws {HandlerError} `ERR_HANDLER_FAILED`, `ERR_HANDLER_TIMEOUT`; its cause is what the handler threw.
 * @throws {PermanentError} as the handler threw it.
 * @throws {EventError} `ERR_PAYLOAD_INVALID`, naming the fields, never their values.
 */
export async function attempt<Tx>(
  event: WebhookEvent,
  { rules, context: given }: AttemptOptions<Tx>,
): Promise<boolean> {
  const handler = rules.handlers[event.type];
  if (handler === undefined) return false;

  // Made when asked for: a signal costs as much as reading the whole delivery, and few handlers want one.
  let controller: AbortController | undefined;
  const abortable = () => (controller ??= new AbortController());
  const context: HandlerContext<Tx> = {
    ...given,
    get signal() {
      return abortable().signal;
    },
  };
  const schema = rules.payloads[event.type];
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const running =
      schema === undefined
        ? handler(event, context)
        : narrow(event, schema).then((narrowed) => handler(narrowed, context));
    // What returned nothing has ended: there is nothing to wait for, and no time to limit.
    if (running === undefined) return true;
    // A handler that rejects after its time is up is heard here too, and so is no unhandled rejection.
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => {
        const error = new HandlerError(
          'ERR_HANDLER_TIMEOUT',
          `The handler of ${event.type} did not end within ${rules.handlerTimeoutMs} ms. Make it faster, raise handlerTimeoutMs, or hand the work to a queue.`,
        );
        reject(error);
        abortable().abort(error);
      }, rules.handlerTimeoutMs);
      Promise.resolve(running).then(resolve, reject);
    });
    return true;
  } catch (thrown) {
    throw toHandlerFault(event, thrown);
  } finally {
    clearTimeout(timer);
  }
}

/** The errors of an attempt, as opposed to those of the inbox around it. */
export type HandlerFault = HandlerError | PermanentError | EventError;

/** Whether an attempt threw it. */
export function isHandlerFault(error: unknown): error is HandlerFault {
  return error instanceof HandlerError || error instanceof PermanentError || error instanceof EventError;
}

function toHandlerFault(event: WebhookEvent, thrown: unknown): HandlerFault {
  // Our own; any other of our errors is one that the handler met elsewhere, and no verdict on this event.
  if (thrown instanceof PermanentError || thrown instanceof HandlerError || isMisfit(thrown)) return thrown;
  // By code, too: the handler may have it from another copy of this package.
  if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_HANDLER_PERMANENT') {
    return new PermanentError(thrown.message, { cause: thrown });
  }
  return new HandlerError(
    'ERR_HANDLER_FAILED',
    `The handler of ${event.type} threw; its error is the cause. The event will be run again; throw PermanentError for what no retry can fix.`,
    { cause: thrown },
  );
}

function isMisfit(thrown: unknown): thrown is EventError {
  return thrown instanceof EventError && thrown.code === 'ERR_PAYLOAD_INVALID';
}

/** The event with its payload as its schema puts it out. */
async function narrow(event: WebhookEvent, schema: StandardSchema): Promise<WebhookEvent> {
  const result = await schema['~standard'].validate(event.payload);
  if (result.issues === undefined) return { ...event, payload: result.value } as WebhookEvent;
  const paths = result.issues.map(({ path = [] }) =>
    ['payload', ...path.map((part) => toName(typeof part === 'object' ? part.key : part))].join('.'),
  );
  const fields = [...new Set(paths)];
  throw new EventError(
    'ERR_PAYLOAD_INVALID',
    `The payload of ${event.type} does not fit its schema at ${fields.join(', ')}. Fix the schema: the event is kept and run again.`,
    { cause: result.issues, fields },
  );
}

/** A part of a path as a message may hold it: where a payload is a table, its keys are content. */
function toName(key: PropertyKey): string {
  return /^(?:[A-Za-z_]\w{0,40}|\d{1,6})$/.test(String(key)) ? String(key) : '*';
}
