/** `stablehooks/express`: the adapter for Express 4 and 5. */
import { type ReceiverSource, toParts } from '../receiver/source.js';
import { createNodeHandler } from './node-body.js';
import type { NodeHandler } from './node-types.js';

export type { NodeHandler, NodeRequest, NodeResponse } from './node-types.js';

const FIX =
  "Register the receiver above express.json, express.urlencoded and express.text: `app.post('/hooks', toExpressHandler(receiver)); app.use(express.json());`.";

/**
 * Creates a handler for Express. The handler reads the body itself, so register the handler above `app.use(express.json())`,
 * or on a path that only `express.raw` parses. The handler never calls `next` and never rejects.
 *
 * @param receiver - a receiver, or a function that creates the receiver on the first delivery.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither a receiver nor a function.
 *
 * @example
 * ```ts
 * app.post('/hooks', toExpressHandler(receiver));
 * ```
 */
export function toExpressHandler(receiver: ReceiverSource): NodeHandler {
  return createNodeHandler(toParts('toExpressHandler', receiver), FIX);
}
