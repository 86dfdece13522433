/** Faults of a server that the fuzzer of sockets must find: at least one for each kind of finding. They are used by its tests only. */
import type { Server } from 'node:http';
import { createReceiver, type Receiver, type WebhookRequest } from 'stablehooks';
import type { SocketFindingKind } from './sockets.js';

/** What a faulty receiver can use of its server. */
interface Parts {
  readonly log: (line: string) => void;
  readonly handler: (event: { readonly id: string }) => void;
}

interface SocketFault {
  readonly kind: SocketFindingKind;
  readonly receive?: (receiver: Receiver, parts: Parts) => Receiver['receive'];
  readonly serve?: (server: Server) => void;
}

// Of the process: receivers are replaced after each report.
const kept: Uint8Array[] = [];
let count = 0;

/** The body is read once: whoever reads it first passes it on. */
function withBody(request: WebhookRequest, change: (body: Uint8Array) => Uint8Array): WebhookRequest {
  return {
    method: request.method,
    header: (name) => request.header(name),
    body: async (maxBytes) => change(await request.body(maxBytes)),
  };
}

/** A receiver that answers every delivery with 503. */
const closed = createReceiver({ secret: 'unused', handlers: {} });
void closed.close();

/** Refused whatever it says. */
const NO_DELIVERY: WebhookRequest = {
  method: 'GET',
  header: () => null,
  body: async () => new Uint8Array(),
};

export const SOCKET_FAULTS: Readonly<Record<string, SocketFault>> = {
  'blocks its thread': {
    kind: 'the process of the servers does not answer',
    receive: (receiver) => (request) => {
      count += 1;
      if (count === 100) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      return receiver.receive(request);
    },
  },
  'keeps sockets open': {
    kind: 'connections stay open',
    serve: (server) => {
      server.on('connection', (socket) => {
        count += 1;
        // Both sides have ended, and the handle stays.
        if (count % 20 === 0) socket.destroy = () => socket;
      });
    },
  },
  'keeps a timer': {
    kind: 'the process of the servers does not end by itself',
    serve: () => void setInterval(() => undefined, 1_000),
  },
  'never answers some': {
    kind: 'a connection is neither answered nor closed',
    receive: (receiver) => (request) => {
      count += 1;
      return count % 5 === 0 ? new Promise(() => undefined) : receiver.receive(request);
    },
  },
  'keeps a buffer of each request': {
    kind: 'each request leaves bytes behind',
    receive: (receiver) => (request) => {
      kept.push(Buffer.alloc(1_024));
      return receiver.receive(request);
    },
  },
  'ends its process': {
    kind: 'the process of the servers ended',
    receive: (receiver) => (request) => {
      count += 1;
      if (count === 100) process.exit(1);
      return receiver.receive(request);
    },
  },
  'logs the body': {
    kind: 'lines contain something confidential',
    receive:
      (receiver, { log }) =>
      (request) =>
        receiver.receive(
          withBody(request, (body) => {
            log(Buffer.from(body).toString());
            return body;
          }),
        ),
  },
  'answers with the signature': {
    kind: 'a response contains something confidential',
    serve: (server) => {
      server.prependListener('request', (request, response) => {
        response.setHeader('x-echo', request.headers['x-service-signature'] ?? '');
      });
    },
  },
  'closes some connections without an answer': {
    kind: 'a valid request is not answered',
    serve: (server) => {
      server.prependListener('request', (request) => {
        count += 1;
        if (count % 5 === 0) request.socket.destroy();
      });
    },
  },
  'answers 503 to what it has handled': {
    kind: 'a response has a status that no shape can have',
    receive: (receiver) => async (request) => {
      await receiver.receive(request);
      return closed.receive(request);
    },
  },
  'handles nothing any more': {
    kind: 'a server does not handle a valid delivery any more',
    receive: (receiver) => (request) => {
      count += 1;
      return receiver.receive(count > 50 ? NO_DELIVERY : request);
    },
  },
  'forgets a delivery': {
    kind: 'a valid delivery is not handled',
    receive: (receiver) => (request) => {
      count += 1;
      return receiver.receive(count % 20 === 0 ? NO_DELIVERY : request);
    },
  },
  'handles without a signature': {
    kind: 'an event is handled that must be refused',
    receive: (_receiver, { handler }) => {
      const seen = new Set<string>();
      const { receive } = createReceiver({ secret: 'unused', handlers: {} });
      return async (request) => {
        let body: Uint8Array = Buffer.alloc(0);
        try {
          body = await request.body(1_000_000);
          const event = JSON.parse(Buffer.from(body).toString());
          if (!seen.has(event.id)) handler(event);
          seen.add(event.id);
        } catch {
          // It isn't a body, or not JSON.
        }
        return receive({
          method: request.method,
          header: (name) => request.header(name),
          body: () => body,
        });
      };
    },
  },
  'handles other bytes': {
    kind: 'an event is handled with other bytes',
    receive:
      (receiver, { handler }) =>
      async (request) => {
        const outcome = await receiver.receive(request);
        if (outcome.kind === 'handled') handler({ ...outcome.event, payload: {} } as never);
        return outcome;
      },
  },
  'handles some events again': {
    kind: 'an event is handled twice',
    receive:
      (receiver, { handler }) =>
      async (request) => {
        const outcome = await receiver.receive(request);
        if (outcome.kind === 'duplicate' && outcome.event !== undefined) handler(outcome.event);
        return outcome;
      },
  },
};

export function faultyReceiver(name: string | undefined, receiver: Receiver, parts: Parts): Receiver {
  const receive = SOCKET_FAULTS[name ?? '']?.receive?.(receiver, parts);
  return receive === undefined ? receiver : { ...receiver, receive };
}

export function addFault(name: string | undefined, server: Server): void {
  SOCKET_FAULTS[name ?? '']?.serve?.(server);
}
