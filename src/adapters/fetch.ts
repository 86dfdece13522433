/** `stablehooks/fetch`: the adapter for Request and Response (Hono, Workers, Deno, Bun, SvelteKit, Remix). */
import type { Receiver } from '../receiver/receiver.js';
import { toWebhookResponse } from '../receiver/reply.js';
import { readWebBody } from './web-body.js';

/**
 * Makes a handler from Request to Response. Its promise never rejects.
 *
 * @example
 * ```ts
 * const handler = toFetchHandler(receiver);
 * app.post('/hooks', (c) => handler(c.req.raw));
 * ```
 */
export function toFetchHandler(receiver: Receiver): (request: Request) => Promise<Response> {
  return async (request) => {
    const outcome = await receiver.receive({
      method: request.method,
      header: (name) => request.headers.get(name),
      body: (rules) => readWebBody(request, rules),
    });
    const { status, headers, body } = toWebhookResponse(outcome);
    return new Response(body, { status, headers });
  };
}
