import { createServer } from 'node:http';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { ConfigError } from 'stablehooks';

/** A sandbox that listens. */
export interface Listening {
  /** The base URL, such as `http://127.0.0.1:4010`. */
  readonly url: string;
  /** Stops listening and disconnects every client. */
  close(): Promise<void>;
}

/** Options of `sandbox.listen`. */
export interface ListenOptions {
  /** @default '127.0.0.1' */
  readonly hostname?: string | undefined;
  /**
   * Answers what a page for people consists of: `/`, `/api/*` and `/assets/*`. These requests need no token of the
   * sandbox, so it must check itself who asks. @default none: they are answered as other paths are
   */
  readonly page?: RequestHandler | undefined;
}

/** Answers a request. Over a socket it also gets Node's own request and response. */
export type RequestHandler = (
  request: Request,
  bindings?: HttpBindings | undefined,
) => Response | Promise<Response>;

function isOfPage({ pathname }: URL): boolean {
  return pathname === '/' || pathname.startsWith('/api/') || pathname.startsWith('/assets/');
}

export async function listen(
  handler: RequestHandler,
  port: number,
  { hostname = '127.0.0.1', page }: ListenOptions = {},
): Promise<Listening> {
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new ConfigError(`The sandbox cannot listen on port ${port}. Give an integer from 0 to 65535.`);
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
