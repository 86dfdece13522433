import { expect, test } from 'vitest';
import { deliver } from '../../src/io/delivery.js';
import { serve } from '../http-server.js';

test('a delivery with an invalid header is unreachable, and leaves no timer behind', async () => {
  const body = new Uint8Array();
  const { answer } = await deliver('http://127.0.0.1:9/', {
    headers: { 'bad header': '' },
    body,
    timeoutMs: 60_000,
  });
  expect(answer).toMatchObject({ kind: 'unreachable', reason: 'ERR_INVALID_HTTP_TOKEN' });
});

test('the body of a reply is not part of the answer, because commands keep thousands of answers', async () => {
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
