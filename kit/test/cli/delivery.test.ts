/** One delivery, whatever it is made of: it answers, and never rejects. */
import { expect, test } from 'vitest';
import { deliver } from '../../src/delivery.js';
import { serve } from './http-server.js';

test('what no request can be made of is unreachable, and no timer is left to strike later', async () => {
  const body = new Uint8Array();
  const { answer } = await deliver('http://127.0.0.1:9/', {
    headers: { 'bad header': '' },
    body,
    timeoutMs: 60_000,
  });
  expect(answer).toMatchObject({ kind: 'unreachable', reason: 'ERR_INVALID_HTTP_TOKEN' });
});

test('the text of a reply is no part of the answer, of which thousands are kept', async () => {
  await using server = await serve((_, response) => void response.end('{"outcome":"handled"}'));
  const { answer, text } = await deliver(server.url, {
    headers: {},
    body: new Uint8Array(),
    timeoutMs: 60_000,
  });
  expect(answer).toEqual({
    kind: 'reply',
    status: 200,
    outcome: 'handled',
    code: undefined,
    elapsedMs: expect.any(Number),
  });
  expect(text).toBe('{"outcome":"handled"}');
});
