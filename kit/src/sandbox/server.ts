import { createServer } from 'node:http';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { ConfigError } from 'stablehooks';
import * as z from 'zod/mini';
import { nonEmptyString, readOptions } from './validation.js';

/** A sandbox that is listening on a port. */
export interface Listening {
  /** The base URL, such as `http://127.0.0.1:4010`. */
  readonly url: string;
  /** Stops listening and disconnects every client. */
  close(): Promise<void>;
}

/** Options of `sandbox.listen`. */
export interface ListenOptions {
  /** The host name or IP address to listen on. @default '127.0.0.1' */
  readonly hostname?: string | undefined;
  /**
   * Host names, without ports, by which other machines reach the sandbox, such as the name of a container. Requests for
   * any host other than these names, `hostname` and `localhost` get a 403, because a web site can make its own name
   * resolve to this machine (DNS rebinding). IP addresses are always allowed. @default []
   */
  readonly allowedHosts?: readonly string[] | undefined;
  /**
   * A function that serves a web page for people. It responds to all requests for `/`, `/api/*` and `/assets/*`. These
   * requests need no sandbox token and can be for any host, so the function itself must authenticate callers. @default
   * none; these paths then get the same responses as other unknown paths
   */
  readonly page?: RequestHandler | undefined;
}

/** Responds to a request. If the request arrives over a socket, `bindings` contains Node's own request and response. */
export type RequestHandler = (
  request: Request,
  bindings?: HttpBindings | undefined,
) => Response | Promise<Response>;

function isOfPage({ pathname }: URL): boolean {
  return pathname === '/' || pathname.startsWith('/api/') || pathname.startsWith('/assets/');
}

export const hostName = z
  .string('must be a string')
  .check(z.regex(/^[\w.-]+$/, 'must be a host name without a scheme or port, such as "sandbox"'));

const shape = {
  hostname: z._default(nonEmptyString, '127.0.0.1'),
  allowedHosts: z._default(z.array(hostName, 'must be a list of host names'), []),
  page: z.optional(
    z.custom<RequestHandler>((value) => typeof value === 'function', 'must be a function that responds'),
  ),
} satisfies Readonly<Record<keyof ListenOptions, z.ZodMiniType>>;

export function readListenOptions(options: ListenOptions = {}) {
  return readOptions('sandbox.listen', options, shape);
}

export async function listen(
  handler: RequestHandler,
  port: number,
  { hostname, page } = readListenOptions(),
): Promise<Listening> {
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new ConfigError(`The sandbox cannot listen on port ${port}. Pass an integer from 0 to 65535.`);
  }
  const listener = getRequestListener(
    (request, bindings) => {
      const answer = page !== undefined && isOfPage(new URL(request.url)) ? page : handler;
      return answer(request, bindings as HttpBindings);
    },
    { overrideGlobalObjects: false },
  );
  const server = createServer(listener);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, hostname, resolve);
  }).catch((cause) => {
    throw new ConfigError(
      `The sandbox cannot listen on ${hostname}:${port}. Check that no other process uses the port.`,
      { cause },
    );
  });
  const address = server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${hostname.includes(':') ? `[${hostname}]` : hostname}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
