/** The adapter contract on AWS Lambda, behind a gateway that writes each of the four events. */
import { createReceiver } from 'stablehooks';
import { adapterContract, createContractReceiver } from 'stablehooks/conformance';
import { toLambdaHandler } from 'stablehooks/lambda';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLambdaBridge, type Gateway, SHAPES } from './lambda-bridge.js';
import { listen, type Running } from './listening.js';

/** What no function can tell: gateways take bodies in whole, and a plain load balancer hands on the last value only. */
const HIDDEN = {
  everywhere: ['a content-length over the limit is answered 413 before any of the body is sent'],
  'a load balancer': [
    'a delivery with the right signature twice is answered 401 ERR_SIGNATURE_MALFORMED',
    'a delivery with a forged signature before the right one is answered 401 ERR_SIGNATURE_MALFORMED',
  ],
} as const;

const gateways = (Object.keys(SHAPES) as Gateway['shape'][]).flatMap((shape) => [
  { shape, alwaysBase64: false, name: `${shape}, bodies as text` },
  { shape, alwaysBase64: true, name: `${shape}, bodies as base64` },
]);

describe.each(gateways)('the adapter contract on $name', (gateway) => {
  const hidden: readonly string[] = [
    ...HIDDEN.everywhere,
    ...(gateway.shape === 'a load balancer' ? HIDDEN['a load balancer'] : []),
  ];
  let running: Running | undefined;
  beforeAll(async () => {
    running = await listen(createLambdaBridge(toLambdaHandler(createContractReceiver()), gateway));
  });
  afterAll(() => running?.close());
  for (const { name, run } of adapterContract) {
    if (!hidden.includes(name)) test.concurrent(name, () => run({ url: running?.url ?? '' }));
  }
});

test('what is hidden from a function are cases of the contract', () => {
  const names = adapterContract.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(Object.values(HIDDEN).flat()));
});

test.each([
  { name: 'a scheduled event', event: { origin: 'aws.events', 'detail-type': 'Scheduled Event' } },
  { name: 'a WebSocket message', event: { requestContext: { routeKey: '$default' }, body: 'x' } },
])('$name is answered 405', async ({ event }) => {
  const receiver = createReceiver({ secret: 'x', handlers: {}, onOutcome: () => undefined });
  const handler = toLambdaHandler(receiver) as (
    event: unknown,
  ) => ReturnType<ReturnType<typeof toLambdaHandler>>;
  expect((await handler(event)).statusCode).toBe(405);
});
