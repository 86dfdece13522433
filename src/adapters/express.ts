/** `stablehooks/express`: the adapter for Express 4 and 5. */
import { assertReceiver } from '../core/options.js';
import type { Receiver } from '../receiver/receiver.js';
import { createNodeHandler } from './node-body.js';
import type { NodeHandler } from './node-types.js';

const FIX =
  "Register the receiver above the parser: `app.post('/hooks', toExpressHandler(receiver)); app.use(express.json());`.";

/**
 * Makes a handler for Express. It reads the body itself: register it above `app.use(express.json())`, or on a path
 * that only `express.raw` parses. Its promise never rejects, and it never calls `next`.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is not a receiver.
 *
 * @example
 * ```ts
 * app.post('/hooks', toExpressHandler(receiver));
 * ```
 */
export function toExpressHandler(receiver: Receiver): NodeHandler {
  assertReceiver('toExpressHandler', receiver, 'receive');
  return createNodeHandler(receiver, FIX);
}
