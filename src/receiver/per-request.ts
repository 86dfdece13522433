import { log } from '../core/log.js';
import type { Logger } from '../core/ports.js';

/** How many receivers with one delivery each, and none with a second one, show a receiver that is made per request. */
const SUSPICIOUS = 50;

let receivers = 0;
let isReused = false;

/** Counts the first and the second delivery of a receiver, and logs once that one seems to be made per request. */
export function noteDelivery(isFirst: boolean, logger: Logger): void {
  if (!isFirst) isReused = true;
  else receivers += 1;
  if (receivers !== SUSPICIOUS || isReused || !isFirst) return;
  log(
    logger,
    'warn',
    `each of ${SUSPICIOUS} receivers got one delivery and no second one. Call createReceiver once, outside of the request handler: a new receiver knows no running handlers, and with the default inbox no handled events.`,
  );
}
