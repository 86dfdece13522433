/** `stablehooks/next`: the adapters for Next's App Router and Pages Router. */
import { ConfigError } from '../core/errors.js';
import { func, readOptions } from '../core/options.js';
import { type ReceiverSource, toParts } from '../receiver/source.js';
import { createFetchHandler } from './fetch.js';
import type { NodeHandler } from './node-types.js';

export type { NodeHandler, NodeRequest, NodeResponse } from './node-types.js';

const FIX =
  'Write `export const config = { api: { bodyParser: false } };` in the route file itself, because Next reads it only there.';

/** Options of {@link toNextRoute}. */
export interface NextRouteOptions {
  /**
   * The function `after` from `next/server` (Next 15.1 and later). It keeps the invocation alive while handlers run after
   * the response. A handler runs after the response if you set `answer: 'recorded'`, or if it takes longer than
   * `handlerTimeoutMs`. Without `after`, a serverless platform might stop the handler, and the event then runs again after
   * `leaseMs`. With `next start`, you don't need `after`.
   *
   * @default none
   */
  readonly after?: ((work: Promise<unknown>) => void) | undefined;
}

/**
 * Creates the exports of an App Router route that receives deliveries, on the Node or the Edge runtime. Pass a function that
 * creates the receiver, because the secret isn't set during `next build`. All routes should import that function from the
 * same module. On Vercel, use a cron route (`toCronRoute`) to retry events.
 *
 * @param receiver - a receiver, or a function that creates the receiver on the first delivery instead of during the build.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` or an option is invalid.
 *
 * @example
 * ```ts
 * export const { POST } = toNextRoute(receiver); // app/hooks/route.ts
 * ```
 */
export function toNextRoute(
  receiver: ReceiverSource,
  options: NextRouteOptions = {},
): { readonly POST: (request: Request) => Promise<Response> } {
  const parts = toParts('toNextRoute', receiver);
  const { after } = readOptions('toNextRoute', options, { after: func() });
  return { POST: createFetchHandler(parts, after) };
}

/**
 * Creates the default export of a Pages Router API route on the Node runtime. The handler's promise never rejects. On the
 * Edge runtime, the handler responds with 500 `ERR_CONFIG_INVALID`.
 *
 * @param receiver - a receiver, or a function that creates the receiver on the first delivery instead of during the build.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `receiver` is neither a receiver nor a function.
 *
 * @example
 * ```ts
 * export const config = { api: { bodyParser: false } }; // pages/api/hooks.ts
 * export default toNextApiRoute(receiver);
 * ```
 */
export function toNextApiRoute(receiver: ReceiverSource): NodeHandler {
  const parts = toParts('toNextApiRoute', receiver);
  return async (request, response) => {
    // Next replaces this variable at build time and removes the import below, so Edge bundles contain no code for Node.
    if (process.env['NEXT_RUNTIME'] === 'edge') {
      const refuse = () => {
        throw new ConfigError(
          'An API route on the Edge runtime receives a Request, so export toFetchHandler(receiver) instead.',
        );
      };
      return createFetchHandler(refuse, undefined)(request as unknown as Request);
    } else {
      // Paused, because another listener may have started the stream, and the reader is not loaded yet.
      if (typeof Object(request).pause === 'function') request.pause();
      const { createNodeHandler } = await import('./node-body.js');
      return createNodeHandler(parts, FIX)(request, response);
    }
  };
}
