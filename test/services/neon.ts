/** Neon's driver beside a plain Postgres: its WebSocket replaced by a socket, the protocol inside the same. */
import { connect, type Socket } from 'node:net';
import { neonConfig, Pool } from '@neondatabase/serverless';

/** As much of a WebSocket as the driver uses, straight to the server's port. */
class PlainSocket extends EventTarget {
  readonly #socket: Socket;
  readyState = 0;
  binaryType = 'arraybuffer';

  constructor(address: string) {
    super();
    const { hostname, port } = new URL(address);
    this.#socket = connect(Number(port), hostname);
    this.#socket.on('connect', () => this.#tell(new Event('open'), 1));
    this.#socket.on('data', (bytes) =>
      this.dispatchEvent(new MessageEvent('message', { data: copy(bytes) })),
    );
    this.#socket.on('error', () => this.#tell(new Event('error'), 3));
    this.#socket.on('close', () => this.#tell(new Event('close'), 3));
  }

  #tell(event: Event, readyState: number) {
    this.readyState = readyState;
    this.dispatchEvent(event);
  }

  send(bytes: Uint8Array) {
    this.#socket.write(bytes);
  }

  close() {
    this.#socket.end();
  }
}

function copy(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}

export function neonPool(connectionString: string): Pool {
  neonConfig.webSocketConstructor = PlainSocket;
  neonConfig.useSecureWebSocket = false;
  neonConfig.forceDisablePgSSL = true;
  neonConfig.pipelineConnect = false;
  neonConfig.wsProxy = (host, port) => `${host}:${port}`;
  return new Pool({ connectionString });
}
