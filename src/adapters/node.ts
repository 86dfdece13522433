/** `stablehooks/node`: the adapter for node:http and frameworks that expose its objects (Koa, Nest). */
import { type ReceiverSource, toParts } from '../receiver/source.js';
import { createNodeHandler } from './node-body.js';
import type { NodeHandler } from './node-types.js';

export type { NodeHandler, NodeRequest, NodeResponse } from './node-types.js';

const FIX =
  'Do not read the request before the receiver: in Koa, mount it before the body parser; in Nest, write `NestFactory.create(AppModule, { rawBody: true })`.';

/**
 * Creates a handler for node:http. Its promise never rejects, and resolves once the response is written.
 *
 * @param receiver - a receiver, or a function that creates it at the first delivery.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither.
 *
 * @example
 * ```ts
 * createServer(toNodeHandler(receiver)).listen(3000);
 * ```
 */
export function toNodeHandler(receiver: ReceiverSource): NodeHandler {
  return createNodeHandler(toParts('toNodeHandler', receiver), FIX);
}
