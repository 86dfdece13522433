import { log } from '../core/log.js';
import type { Logger } from '../core/ports.js';

/** How many receivers must each have had one delivery, and none a second one, before the warning. */
const SUSPICIOUS = 50;

let receivers = 0;
let isReused = false;

/** Counts the first and the second delivery of a receiver. Logs once when receivers seem to be created per request. */
export function noteDelivery(isFirst: boolean, logger: Logger): void {
  if (!isFirst) isReused = true;
  else receivers += 1;
  if (receivers !== SUSPICIOUS || isReused || !isFirst) return;
  log(
    logger,
    'warn',
    `${SUSPICIOUS} receivers have each received exactly one delivery. Call createReceiver once, outside of the request handler: a new receiver knows no running handlers, and with the default inbox no handled events.`,
  );
}
