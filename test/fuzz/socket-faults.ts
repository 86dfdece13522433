/** Faults of a server that the fuzzer of sockets must find, by name. They are used by its tests only. */
import { createReceiver, type Receiver, type WebhookRequest } from 'stablehooks';

/** What a fault can use of its server. */
interface Parts {
  readonly log: (line: string) => void;
  readonly handler: (event: { readonly id: string }) => void;
}

type Fault = (receiver: Receiver, parts: Parts) => Receiver['receive'];

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

const FAULTS: Readonly<Record<string, Fault>> = {
  'keeps a buffer of each request': (receiver) => (request) => {
    kept.push(Buffer.alloc(1_024));
    return receiver.receive(request);
  },
  'logs the body':
    (receiver, { log }) =>
    (request) =>
      receiver.receive(
        withBody(request, (body) => {
          log(Buffer.from(body).toString());
          return body;
        }),
      ),
  'handles without a signature': (_receiver, { handler }) => {
    const seen = new Set<string>();
    const { receive } = createReceiver({ secret: 'unused', handlers: {} });
    return async (request) => {
      const body = await request.body(1_000_000).catch(() => Buffer.alloc(0));
      try {
        const event = JSON.parse(Buffer.from(body).toString());
        if (!seen.has(event.id)) handler(event);
        seen.add(event.id);
      } catch {
        // It is no JSON.
      }
      return receive({
        method: request.method,
        header: (name) => request.header(name),
        body: async () => body,
      });
    };
  },
  'handles other bytes':
    (receiver, { handler }) =>
    async (request) => {
      const outcome = await receiver.receive(request);
      if (outcome.kind === 'handled' && outcome.event !== undefined)
        handler({ ...outcome.event, payload: {} } as never);
      return outcome;
    },
  'never answers some': (receiver) => (request) => {
    count += 1;
    return count % 5 === 0 ? new Promise(() => undefined) : receiver.receive(request);
  },
  'ends the process': (receiver) => (request) => {
    count += 1;
    if (count === 200) process.exit(1);
    return receiver.receive(request);
  },
  'forgets a delivery': (receiver) => (request) => {
    count += 1;
    return count % 20 === 0
      ? receiver.receive({ method: 'GET', header: () => null, body: async () => Buffer.alloc(0) })
      : receiver.receive(request);
  },
};

/** The name of every fault. */
export const FAULT_NAMES = Object.keys(FAULTS);

/** The receiver with the fault of this name. */
export function withFault(name: string | undefined, receiver: Receiver, parts: Parts): Receiver {
  const fault = name === undefined ? undefined : FAULTS[name];
  return fault === undefined ? receiver : { ...receiver, receive: fault(receiver, parts) };
}
