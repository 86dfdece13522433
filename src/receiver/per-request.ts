import { log } from '../core/log.js';
import type { Logger } from '../core/ports.js';

/** Warn after this many receivers have each handled exactly one delivery. */
const SUSPICIOUS = 50;

/** The receivers that have had one delivery. */
const used = new WeakSet<object>();
let count = 0;
let isReused = false;

/** Notes a delivery of a receiver. Logs once when receivers seem to be created per request. */
export function noteDelivery(receiver: object, logger: Logger): void {
  if (isReused) return;
  isReused = used.has(receiver);
  if (isReused) return;
  used.add(receiver);
  count += 1;
  if (count !== SUSPICIOUS) return;
  log(
    logger,
    'warn',
    `${SUSPICIOUS} receivers have each received exactly one delivery. Call createReceiver once, outside of the request handler: a new receiver knows no running handlers, and with the default inbox no handled events.`,
  );
}
