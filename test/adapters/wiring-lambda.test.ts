import type { Receiver } from 'stablehooks';
import { type LambdaEvent, toLambdaHandler } from 'stablehooks/lambda';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { deferred } from '../receiver/delivery.js';
import { isSettled } from '../receiver/set-up.js';
import { createObserved, secret } from './observed.js';

const post = { requestContext: { http: { method: 'POST' } } };

const record = { messageId: 'm1', body: '{}', messageAttributes: {}, eventSource: 'aws:sqs' };

/** Calls the handler with what its types refuse. */
function invoke(receiver: Receiver, event: unknown) {
  return toLambdaHandler(receiver)(event as LambdaEvent);
}

test.each<{ readonly name: string; readonly event: unknown }>([
  { name: 'a batch of SQS messages', event: { Records: [record] } },
  { name: 'a scheduled event', event: { source: 'aws.events', 'detail-type': 'Scheduled Event' } },
  { name: 'a WebSocket message', event: { requestContext: { routeKey: '$default' }, body: 'x' } },
  { name: 'null', event: null },
  { name: 'an empty object', event: {} },
  { name: 'an event whose context is null', event: { requestContext: null } },
  { name: 'an event whose method is null', event: { httpMethod: null } },
])(
  'the Lambda handler rejects $name, because Lambda would take an answer for a success',
  async ({ event }) => {
    const { receiver, outcomes } = createObserved();
    await expect(invoke(receiver, event)).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringMatching(/not an HTTP request/),
    });
    expect(outcomes).toEqual([]);
  },
);

test.each<{ readonly name: string; readonly event: unknown; readonly status: number }>([
  {
    name: 'the health check of a load balancer',
    event: { requestContext: { elb: {} }, httpMethod: 'GET', path: '/', headers: {}, body: '' },
    status: 405,
  },
  { name: 'an event without headers', event: post, status: 401 },
  { name: 'an event whose headers are null', event: { ...post, headers: null }, status: 401 },
])('the Lambda handler answers $name $status and does not reject', async ({ event, status }) => {
  const { receiver, outcomes } = createObserved();
  expect((await invoke(receiver, event)).statusCode).toBe(status);
  expect(outcomes).toHaveLength(1);
});

test.each([{}, [], 7, true, new Uint8Array(2)])(
  'the Lambda handler answers an event whose body a middleware made into %j with ERR_BODY_UNAVAILABLE and the fix',
  async (body) => {
    const { receiver, outcomes } = createObserved();
    const headers = { 'x-service-signature': '0'.repeat(64) };
    expect((await invoke(receiver, { ...post, headers, body })).statusCode).toBe(500);
    expect(outcomes[0]?.error).toMatchObject({
      code: 'ERR_BODY_UNAVAILABLE',
      message: expect.stringContaining('remove httpJsonBodyParser'),
    });
  },
);

test.each([
  [
    'a second signature',
    (right: string) => ({ 'X-Service-Signature': '0'.repeat(64), 'x-service-signature': right }),
    401,
  ],
  [
    'a second content-encoding',
    (right: string) => ({
      'x-service-signature': right,
      'Content-Encoding': 'identity',
      'content-encoding': 'gzip',
    }),
    415,
  ],
  ['one signature in two cases of two maps', (right: string) => ({ 'x-service-signature': right }), 200],
])(
  'the Lambda handler reads %s, whose name has other capitals, as Node does',
  async (_, toHeaders, status) => {
    const { headers, body } = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const sent = toHeaders(headers['x-service-signature'] ?? '');
    const lists = Object.entries(sent).map(([name, value]) => [name.toUpperCase(), [value]]);
    for (const multiValueHeaders of status === 200 ? [null, {}, Object.fromEntries(lists)] : [null]) {
      const { receiver } = createObserved();
      const event = { ...post, headers: sent, multiValueHeaders, body: Buffer.from(body).toString() };
      expect((await invoke(receiver, event)).statusCode).toBe(status);
    }
  },
);

test('the Lambda handler answers when a handler that outlived handlerTimeoutMs has ended, because the process is frozen then', async () => {
  const [gate, reported] = [deferred(), deferred()];
  const { receiver } = createObserved({
    handlers: { 'transfer.settled': () => gate.promise },
    handlerTimeoutMs: 20,
    onOutcome: () => reported.resolve(),
  });
  const { headers, body } = await signedRequest(exampleEvent('transfer.settled'), { secret });
  const event = { ...post, headers, body: Buffer.from(body).toString(), isBase64Encoded: false };

  const answer = toLambdaHandler(receiver)(event);
  await reported.promise;
  expect(await isSettled(answer)).toBe(false);
  gate.resolve();

  expect((await answer).statusCode).toBe(500);
});
