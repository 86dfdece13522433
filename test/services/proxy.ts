/** A TCP proxy in front of a server, for networks that fail. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Proxy {
  readonly port: number;
  /** Where new connections go. */
  target: number;
  /** From now on, open connections stay open and carry nothing. New connections work. */
  silence(): void;
  /** Called with each part that a client sends; the connection is destroyed where it returns `true`. */
  breaks: (sent: string) => boolean;
}

/** Ends with the test. */
export async function startProxy(target: number): Promise<Proxy> {
  let sockets = new Set<Socket>();
  const all = new Set<Socket>();
  const proxy = { port: 0, target, silence, breaks: (_sent: string) => false };
  function silence(): void {
    for (const socket of sockets) socket.removeAllListeners('data').resume();
    sockets = new Set();
  }
  const server = createServer((client) => {
    const upstream = connect(proxy.target, '127.0.0.1');
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      all.add(from);
      from.on('data', (data) => {
        if (from === client && proxy.breaks(data.toString('latin1'))) client.destroy();
        else to.write(data);
      });
      from.on('error', () => to.destroy()).on('close', () => to.destroy());
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  proxy.port = (server.address() as AddressInfo).port;
  onTestFinished(() => {
    for (const socket of all) socket.destroy();
    server.close();
  });
  return proxy;
}
