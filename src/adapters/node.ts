/** `stablehooks/node`: the adapter for node:http and frameworks that give out its objects (Koa, Nest). */
import { assertReceiver } from '../core/options.js';
import type { Receiver } from '../receiver/receiver.js';
import { createNodeHandler } from './node-body.js';
import type { NodeHandler } from './node-types.js';

const FIX =
  'Do not read the request before the receiver: in Koa, mount it before the body parser; in Nest, write `NestFactory.create(AppModule, { rawBody: true })`.';

/**
 * Makes a handler for node:http. Its promise never rejects, and resolves once the response is written.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is not a receiver.
 *
 * @example
 * ```ts
 * createServer(toNodeHandler(receiver)).listen(3000);
 * ```
 */
export function toNodeHandler(receiver: Receiver): NodeHandler {
  assertReceiver('toNodeHandler', receiver, 'receive');
  return createNodeHandler(receiver, FIX);
}
