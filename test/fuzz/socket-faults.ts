/** Servers with a fault for each finding of the fuzzer of sockets, by the finding. They are used by its tests only. */
import type { Server } from 'node:http';
import { createReceiver, type Receiver, type UnknownEvent, type WebhookRequest } from 'stablehooks';

type Receive = Receiver['receive'];

/** What a faulty receiver can use of its server. */
interface Parts {
  readonly log: (line: string) => void;
  readonly handler: (event: UnknownEvent) => void;
}

export interface SocketFault {
  readonly receive?: (receive: Receive, parts: Parts) => Receive;
  readonly serve?: (server: Server) => void;
}

// Of the process: receivers are replaced after each report.
const kept: Uint8Array[] = [];
let count = 0;
const isOneIn = (many: number) => {
  count += 1;
  return count % many === 0;
};

/** A receiver that answers every delivery with 503. */
const closed = createReceiver({ secret: 'unused', handlers: {} });
void closed.close();

/** The request of an adapter can be a class. */
const passedOn = (request: WebhookRequest, change: Partial<WebhookRequest>): WebhookRequest => ({
  method: request.method,
  header: (name) => request.header(name),
  body: (maxBytes) => request.body(maxBytes),
  ...change,
});

/** A fault in front of the receiver. It answers the request if it returns something. */
const before = (fault: (request: WebhookRequest) => ReturnType<Receive> | undefined): SocketFault => ({
  receive: (receive) => (request) => fault(request) ?? receive(request),
});

/** A fault that gets what was sent, and what came of it. */
const after = (
  fault: (parts: Parts & Awaited<ReturnType<Receive>> & { readonly body: string }) => unknown,
): SocketFault => ({
  receive: (receive, parts) => async (request) => {
    let body = '';
    const read = async (maxBytes: number) => {
      const bytes = await request.body(maxBytes);
      body = Buffer.from(bytes).toString();
      return bytes;
    };
    const outcome = await receive(passedOn(request, { body: read }));
    fault({ ...parts, ...outcome, body });
    return outcome;
  },
});

export const SOCKET_FAULTS = {
  'the process of the servers ended without an answer': before(() => {
    if (isOneIn(100)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    return undefined;
  }),
  'the process of the servers ended by itself': before(() => (isOneIn(100) ? process.exit(1) : undefined)),
  'the process of the servers does not end by itself': {
    serve: () => void setInterval(() => undefined, 1_000),
  },
  'connections stay open': {
    serve(server) {
      server.on('connection', (socket) => {
        // Both sides have ended, and the handle stays.
        if (isOneIn(20)) socket.destroy = () => socket;
      });
    },
  },
  'a connection is neither answered nor closed': before(() =>
    isOneIn(5) ? new Promise(() => undefined) : undefined,
  ),
  'each request leaves bytes behind': before(() => {
    kept.push(Buffer.alloc(1_024));
    return undefined;
  }),
  'lines contain something confidential': after(({ log, body }) => log(body)),
  'a response contains something confidential': {
    serve(server) {
      server.prependListener('request', (request, response) => {
        response.setHeader('x-echo', request.headers['x-service-signature'] ?? '');
      });
    },
  },
  'a valid request is not answered': {
    serve(server) {
      server.prependListener('request', ({ socket }) => {
        if (isOneIn(5)) socket.destroy();
      });
    },
  },
  'a response has a status that no shape can have': {
    receive: (receive) => async (request) => {
      await receive(request);
      return closed.receive(request);
    },
  },
  'a valid delivery is not handled': {
    receive: (receive) => (request) => receive(isOneIn(20) ? passedOn(request, { method: 'GET' }) : request),
  },
  'an event is handled that must not be': after(({ event, kind, handler }) => {
    if (kind === 'duplicate' && event) handler(event);
  }),
} satisfies Readonly<Record<string, SocketFault>>;
