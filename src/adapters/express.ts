/** `stablehooks/express`: the adapter for Express 4 and 5. */
import type { ServerResponse } from 'node:http';
import type { Receiver } from '../receiver/receiver.js';
import type { NodeRequest } from './node-body.js';
import { createNodeHandler } from './node-delivery.js';

const FIX =
  "Mount the receiver above the parser: `app.post('/hooks', toExpressHandler(receiver)); app.use(express.json());`, or give its path `express.raw({ type: '*/*' })` first.";

/**
 * Makes a handler for Express. It reads the body itself, so it stands above `app.use(express.json())`, or
 * behind `express.raw`. Its promise never rejects, and it never calls `next`.
 *
 * @example
 * ```ts
 * app.post('/hooks', toExpressHandler(receiver));
 * ```
 */
export function toExpressHandler(
  receiver: Receiver,
): (request: NodeRequest, response: ServerResponse) => Promise<void> {
  return createNodeHandler(receiver, { fix: FIX });
}
