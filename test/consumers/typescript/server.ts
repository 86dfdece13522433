/** The oldest TypeScript that we claim: the declarations compile without `skipLibCheck`, and events are narrowed. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createReceiver, isKnownEvent, memoryInbox, PermanentError, parseEvent } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFetchHandler } from 'stablehooks/fetch';
import { toLambdaHandler } from 'stablehooks/lambda';
import { toNextApiRoute, toNextRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';

const receiver = createReceiver({
  secret: 'whsec_typescript',
  inbox: memoryInbox(),
  handlers: {
    'transfer.settled': async (event, { signal, attempt }) => {
      const type: 'transfer.settled' = event.type;
      // @ts-expect-error A payload without a schema is of unknown content.
      const amount: string = event.payload['amount'];
      if (signal.aborted && attempt > 1) throw new PermanentError(`${type} ${amount}`);
    },
  },
});

export const misspelt = () =>
  // @ts-expect-error A misspelt event type does not compile.
  createReceiver({ secret: 'whsec', handlers: { 'transfer.setled': () => null } });

export const { event } = parseEvent(
  new TextEncoder().encode(
    '{"id":"evt_1","type":"transfer.failed","created_at":"2026-01-02T03:04:05Z","payload":{}}',
  ),
);
if (isKnownEvent(event) && event.type === 'redeem.failed') event.type satisfies 'redeem.failed';

// Not stablehooks/fastify: its types are Fastify's own, which need TypeScript 5.4.
export const adapters = [toExpressHandler, toFetchHandler, toLambdaHandler, toNextRoute, toNextApiRoute];
export const mounted = toExpressHandler(receiver);

// The declarations of `stablehooks-kit/conformance` need TypeScript 5.7, where Node's Buffer became generic: load it untyped.
const conformance: string = 'stablehooks-kit/conformance';
const { createContractReceiver } = await import(conformance);

const server = createServer(toNodeHandler(createContractReceiver()));
server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
