import { toLambdaHandler } from 'stablehooks/lambda';
import { adapterContract, createContractReceiver } from 'stablehooks-kit/conformance';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLambdaBridge, type Gateway, SHAPES } from './lambda-bridge.js';
import { listen, type Running } from './listening.js';

/** Cases that a function cannot pass: gateways read complete bodies, and a load balancer without multi-value headers passes on only the last value. */
const OUT_OF_REACH = {
  everywhere: [
    'a content-length over the limit is answered 413 before any of the body is sent',
    'a body that never ends is answered 500 ERR_BODY_TIMEOUT, and its connection is closed',
  ],
  'a load balancer': [
    'a delivery with the right signature twice is answered 401 ERR_SIGNATURE_MALFORMED',
    'a delivery with a forged signature before the right one is answered 401 ERR_SIGNATURE_MALFORMED',
  ],
} as const;

const gateways = (Object.keys(SHAPES) as Gateway['shape'][]).flatMap((shape) => [
  { shape, alwaysBase64: false, name: `${shape} with bodies as strings` },
  { shape, alwaysBase64: true, name: `${shape} with bodies as base64` },
]);

describe.each(gateways)('the Lambda adapter behind $name', (gateway) => {
  const outOfReach: readonly string[] = [
    ...OUT_OF_REACH.everywhere,
    ...(gateway.shape === 'a load balancer' ? OUT_OF_REACH['a load balancer'] : []),
  ];
  let running: Running | undefined;
  beforeAll(async () => {
    running = await listen(createLambdaBridge(toLambdaHandler(createContractReceiver()), gateway));
  });
  afterAll(() => running?.close());
  for (const { name, run } of adapterContract) {
    if (!outOfReach.includes(name)) test.concurrent(name, () => run({ url: running?.url ?? '' }));
  }
});

test('the cases that are skipped behind a Lambda gateway exist in the adapter contract', () => {
  const names = adapterContract.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(Object.values(OUT_OF_REACH).flat()));
});
