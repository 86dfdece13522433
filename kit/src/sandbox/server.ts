/** The sandbox on a port, on loopback unless told otherwise. */
import { createServer } from 'node:http';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { ConfigError } from 'stablehooks';

/** A sandbox that listens. */
export interface Listening {
  /** The base address, such as `http://127.0.0.1:4010`. */
  readonly url: string;
  /** Stops listening and cuts what is still connected. */
  close(): Promise<void>;
}

/** What Hono hands to a route: over a socket Node's own request and response, in process nothing. */
export interface Env {
  Bindings: Partial<HttpBindings>;
}

/** Where to listen, beside the port. */
export interface ListenOptions {
  /** @default '127.0.0.1' */
  readonly hostname?: string | undefined;
}

/** What answers requests; over a socket it also gets Node's own request and response. */
export type Answer = (request: Request, bindings?: HttpBindings) => Response | Promise<Response>;

export async function listen(
  answer: Answer,
  { port, hostname = '127.0.0.1' }: ListenOptions & { readonly port: number },
): Promise<Listening> {
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new ConfigError(`The sandbox cannot listen on port ${port}. Give a whole number from 0 to 65535.`);
  }
  const listener = getRequestListener((request, bindings) => answer(request, bindings as HttpBindings), {
    overrideGlobalObjects: false,
  });
  const server = createServer(listener);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, hostname, resolve);
  }).catch((cause) => {
    throw new ConfigError(`The sandbox cannot listen on ${hostname}:${port}. Is the port taken?`, { cause });
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
