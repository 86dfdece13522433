import { setImmediate } from 'node:timers/promises';
import { toLambdaHandler } from 'stablehooks/lambda';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { expect, test } from 'vitest';
import { deferred } from '../receiver/delivery.js';
import { createObserved, secret } from './observed.js';

const post = { requestContext: { http: { method: 'POST' } } };

test.each<{ readonly name: string; readonly event: unknown; readonly status: number }>([
  { name: 'null', event: null, status: 405 },
  { name: 'nothing', event: undefined, status: 405 },
  { name: 'the string "ping"', event: 'ping', status: 405 },
  { name: 'a number', event: 7, status: 405 },
  { name: 'true', event: true, status: 405 },
  { name: 'an array', event: [], status: 405 },
  { name: 'an empty object', event: {}, status: 405 },
  {
    name: 'a scheduled event',
    event: { source: 'aws.events', 'detail-type': 'Scheduled Event' },
    status: 405,
  },
  {
    name: 'a WebSocket message',
    event: { requestContext: { routeKey: '$default' }, body: 'x' },
    status: 405,
  },
  { name: 'an event whose context is null', event: { requestContext: null }, status: 405 },
  { name: 'an event whose method is null', event: { httpMethod: null }, status: 405 },
  { name: 'an event without headers', event: post, status: 401 },
  { name: 'an event whose headers are null', event: { ...post, headers: null }, status: 401 },
  { name: 'an event whose headers are a string', event: { ...post, headers: 'x' }, status: 401 },
  {
    name: 'an event whose body is an object',
    event: { ...post, headers: { 'x-service-signature': '0'.repeat(64) }, body: {} },
    status: 500,
  },
])('the Lambda handler answers $name $status and does not reject', async ({ event, status }) => {
  const { receiver, outcomes } = createObserved();
  const handler = toLambdaHandler(receiver) as (
    event: unknown,
  ) => ReturnType<ReturnType<typeof toLambdaHandler>>;

  expect((await handler(event)).statusCode).toBe(status);
  expect(outcomes).toHaveLength(1);
});

test('the Lambda handler answers when a handler that outlived handlerTimeoutMs has ended, because the process is frozen then', async () => {
  const [gate, reported] = [deferred(), deferred()];
  const { receiver } = createObserved({
    handlers: { 'transfer.settled': () => gate.promise },
    handlerTimeoutMs: 20,
    onOutcome: () => reported.resolve(),
  });
  const { headers, body } = await signedRequest(exampleEvent('transfer.settled'), { secret });
  const event = { ...post, headers, body: Buffer.from(body).toString(), isBase64Encoded: false };

  let answered = false;
  const answer = toLambdaHandler(receiver)(event).finally(() => {
    answered = true;
  });
  await reported.promise;
  await setImmediate();
  expect(answered).toBe(false);
  gate.resolve();

  expect((await answer).statusCode).toBe(500);
});
