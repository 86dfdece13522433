/** `stablehooks/node`: the adapter for node:http and what hands out its objects (Koa, Nest). */
import type { ServerResponse } from 'node:http';
import type { Receiver } from '../receiver/receiver.js';
import type { NodeRequest } from './node-body.js';
import { createNodeHandler } from './node-delivery.js';

const FIX =
  'Let nothing read the request before the receiver: in Koa mount it before the body parser, in Nest write `NestFactory.create(AppModule, { rawBody: true })`.';

/**
 * Makes a handler for node:http. Its promise never rejects, and resolves once the reply is written.
 *
 * @example
 * ```ts
 * createServer(toNodeHandler(receiver)).listen(3000);
 * ```
 */
export function toNodeHandler(
  receiver: Receiver,
): (request: NodeRequest, response: ServerResponse) => Promise<void> {
  return createNodeHandler(receiver, { fix: FIX });
}
