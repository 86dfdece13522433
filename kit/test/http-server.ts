import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { freePort } from '../../test/services/free-port.js';

/** A running server; `url` has no path. */
export interface RunningServer extends AsyncDisposable {
  readonly url: string;
}

/** Starts a server on a free port of the loopback; it is closed at the end of the block. */
export async function serve(handler: RequestListener | Server): Promise<RunningServer> {
  const server = typeof handler === 'function' ? createServer(handler) : handler;
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** A URL where nothing listens. */
export async function findClosedUrl(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}`;
}

/** Starts a server that accepts connections and sends nothing. */
export async function listenSilently(): Promise<RunningServer> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
