import {
  isKnownEvent,
  isName,
  MAX_NAME_BYTES,
  type UnknownEvent,
  type WebhookEvent,
} from '../core/events.js';
import type { CallHandler } from '../receiver/layers.js';
import type { OrderingKey } from '../receiver/options.js';
import type { CoreParts } from '../receiver/parts.js';
import type { Dispatch } from '../receiver/work.js';

/** Never throws: if `orderingKey` throws, `checkKey` fails the attempt. */
export function toKeyOf(orderingKey: OrderingKey): (event: UnknownEvent) => string | undefined {
  return (event) => {
    try {
      return isKnownEvent(event) ? readKey(event, orderingKey) : undefined;
    } catch {
      return undefined;
    }
  };
}

/** If an event's key changed after the claim, two events with the same key could run at the same time. */
export function checkKey(next: CallHandler, orderingKey: OrderingKey): CallHandler {
  return (event, lease, context) => {
    if (readKey(event, orderingKey) !== lease.key) {
      throw new TypeError(
        'orderingKey returned a different key than when the event was claimed. The key must depend only on the event, and the inbox must support ordering keys.',
      );
    }
    return next(event, lease, context);
  };
}

/** The next event with the same key may be due. */
export function wakeAfter(next: Dispatch, { settings, redriver }: CoreParts): Dispatch {
  if (settings.orderingKey === undefined) return next;
  return async (work) => {
    const run = await next(work);
    if (run.rest !== undefined) void run.rest.then(() => redriver.wake());
    else if (run.result.attempt !== undefined) redriver.wake();
    return run;
  };
}

function readKey(event: WebhookEvent, orderingKey: OrderingKey): string | undefined {
  const key: unknown = orderingKey(event);
  if (key === undefined || key === null) return undefined;
  if (isName(key)) return key;
  throw new TypeError(
    `orderingKey must return undefined, null or a string that is 1 to ${MAX_NAME_BYTES} bytes long in UTF-8 and contains no control characters.`,
  );
}
