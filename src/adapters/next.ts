/** `stablehooks/next`: the adapters for Next's App Router and Pages Router. */
import type { ServerResponse } from 'node:http';
import { ConfigError } from '../core/errors.js';
import type { Receiver } from '../receiver/receiver.js';
import { toFetchHandler } from './fetch.js';
import type { NodeRequest } from './node-body.js';

const FIX =
  'Write `export const config = { api: { bodyParser: false } };` in the route file itself, where Next reads it.';

/**
 * Makes the exports of an App Router route, for the Node and the Edge runtime.
 *
 * @example
 * ```ts
 * export const { POST } = toNextRoute(receiver); // app/hooks/route.ts
 * ```
 */
export function toNextRoute(receiver: Receiver): { readonly POST: (request: Request) => Promise<Response> } {
  return { POST: toFetchHandler(receiver) };
}

/**
 * Makes the default export of a Pages Router API route, on the Node runtime. Its promise never rejects.
 *
 * @example
 * ```ts
 * export const config = { api: { bodyParser: false } }; // pages/api/hooks.ts
 * export default toNextApiRoute(receiver);
 * ```
 */
export function toNextApiRoute(
  receiver: Receiver,
): (request: NodeRequest, response: ServerResponse) => Promise<void> {
  return async (request, response) => {
    // Next replaces this name as it bundles, and with it the import goes: no Edge bundle holds anything of Node.
    if (process.env['NEXT_RUNTIME'] === 'edge') {
      throw new ConfigError(
        'An API route on the Edge runtime takes a Request: export toFetchHandler(receiver).',
      );
    } else {
      const { createNodeHandler } = await import('./node-delivery.js');
      await createNodeHandler(receiver, { fix: FIX })(request, response);
    }
  };
}
