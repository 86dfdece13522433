/** One delivery, whatever it is made of: it answers, and never rejects. */
import { expect, test } from 'vitest';
import { deliver } from '../../src/cli/delivery.js';

test('what no request can be made of is unreachable, and no timer is left to strike later', async () => {
  const body = new Uint8Array();
  const answer = await deliver('http://127.0.0.1:9/', {
    headers: { 'bad header': '' },
    body,
    timeoutMs: 60_000,
  });
  expect(answer).toMatchObject({ kind: 'unreachable', reason: 'ERR_INVALID_HTTP_TOKEN' });
});
