import { createReceiver } from 'stablehooks';
import { createPoller, toCronRoute } from 'stablehooks/catch-up';

import { expect, test } from 'vitest';
import { startList } from './list-server.js';

async function setUp(answer: Parameters<typeof startList>[0]) {
  let asked = 0;
  const client = await startList((question) => {
    asked += 1;
    return answer(question);
  });
  const receiver = createReceiver({ secret: 'secret', handlers: {} });
  const poller = createPoller({ client, receiver, onGap: () => undefined });
  const { GET } = toCronRoute(poller, { secret: 'cron-secret' });
  const get = (headers: Record<string, string>) => GET(new Request('http://localhost/cron', { headers }));
  return { get, poller, asked: () => asked };
}

test('a request with the secret runs one poll and is answered its report', async () => {
  const { get } = await setUp(() => []);
  const response = await get({ authorization: 'Bearer cron-secret' });
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ proven: true, requests: 1 });
});

test('a request without the secret is answered 401 and does not poll', async () => {
  const { get, asked } = await setUp(() => []);
  for (const authorization of [
    '',
    'Bearer',
    'Bearer cron-secre',
    'Bearer cron-secrets',
    'cron-secret',
    'Basic x',
  ]) {
    expect((await get({ authorization })).status).toBe(401);
  }
  expect((await get({})).status).toBe(401);
  expect(asked()).toBe(0);
});

test('a poll that proves nothing is answered 500', async () => {
  const { get } = await setUp(() => 503);
  const response = await get({ authorization: 'Bearer cron-secret' });
  expect(response.status).toBe(500);
  expect(await response.json()).toMatchObject({ proven: false });
});

test('toCronRoute refuses an empty secret and a misspelt option', async () => {
  const { poller } = await setUp(() => []);
  expect(() => toCronRoute(poller, { secret: '' })).toThrow(/secret/);
  const misspelt = { secret: 'cron-secret', secrt: 'x' };
  expect(() => toCronRoute(poller, misspelt)).toThrow('Did you mean `secret`?');
});
