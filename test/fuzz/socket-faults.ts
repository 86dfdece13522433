/** Servers with a fault for each finding of the fuzzer of sockets, by the finding. They are used by its tests only. */
import type { Server } from 'node:http';
import {
  createReceiver,
  type Layer,
  type Outcome,
  type UnknownEvent,
  type WebhookRequest,
} from 'stablehooks';

/** What a faulty receiver can use of its server. */
interface Parts {
  readonly log: (line: string) => void;
  readonly handler: (event: UnknownEvent) => void;
}

export interface SocketFault {
  readonly layer?: (parts: Parts) => Layer;
  readonly serve?: (server: Server) => void;
}

// Of the process: receivers are replaced after each report.
const kept: Uint8Array[] = [];
let count = 0;
const isOneIn = (many: number) => {
  count += 1;
  return count % many === 0;
};

const quiet = { warn: () => undefined, error: () => undefined };
const idle = createReceiver({ secret: 'unused', handlers: {}, logger: quiet });
const closed = createReceiver({ secret: 'unused', handlers: {}, logger: quiet });
void closed.close();

const request = (method: string): WebhookRequest => ({
  method,
  header: () => null,
  body: () => new Uint8Array(),
});

/** A fault in front of the receiver. It answers the delivery if it returns something. */
const before = (fault: () => Promise<Outcome> | undefined): SocketFault => ({
  layer: () => ({
    conclude: (next) => (facts, run, traceparent) => fault() ?? next(facts, run, traceparent),
  }),
});

/** A fault that gets the outcome of a delivery, and may replace it. */
const after = (fault: (outcome: Outcome, parts: Parts) => unknown): SocketFault => ({
  layer: (parts) => ({
    conclude: (next) => async (facts, run, traceparent) => {
      const outcome = await next(facts, run, traceparent);
      return ((await fault(outcome, parts)) as Outcome | undefined) ?? outcome;
    },
  }),
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
  'lines contain something confidential': after(({ event }, { log }) => log(JSON.stringify(event ?? ''))),
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
  'a response has a status that no shape can have': after(() => closed.receive(request('POST'))),
  'a valid delivery is not handled': before(() => (isOneIn(20) ? idle.receive(request('GET')) : undefined)),
  'an event is handled that must not be': after(({ event, kind }, { handler }) => {
    if (kind === 'duplicate' && event) handler(event);
  }),
} satisfies Readonly<Record<string, SocketFault>>;
