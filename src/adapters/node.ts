/** `stablehooks/node`: the adapter for node:http, and for frameworks that expose Node's request and response (Koa, Nest). */
import { type ReceiverSource, toParts } from '../receiver/source.js';
import { createNodeHandler } from './node-body.js';
import type { NodeHandler } from './node-types.js';

export type { NodeHandler, NodeRequest, NodeResponse } from './node-types.js';

const FIX =
  'Make sure that nothing reads the request before the receiver. In Koa, mount the receiver before the body parser. In Nest, write `NestFactory.create(AppModule, { rawBody: true })`.';

/**
 * Creates a handler for node:http. The handler's promise never rejects; it always resolves once the response is written.
 *
 * @param receiver - a receiver, or a function that creates the receiver on the first delivery.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither a receiver nor a function.
 *
 * @example
 * ```ts
 * createServer(toNodeHandler(receiver)).listen(3000);
 * ```
 */
export function toNodeHandler(receiver: ReceiverSource): NodeHandler {
  return createNodeHandler(toParts('toNodeHandler', receiver), FIX);
}
