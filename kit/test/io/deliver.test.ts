import { expect, test } from 'vitest';
import { describeAnswer, type EndpointAnswer } from '../../src/io/answer.js';
import { deliver } from '../../src/io/deliver.js';
import { summarise } from '../../src/io/delivery-rows.js';
import { hasTakenEffect, toLastError } from '../../src/io/without-handler.js';
import { findClosedUrl, serve } from '../http-server.js';

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
  const { answer, reply: received } = await deliver(server.url, {
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
  expect(received?.body.toString()).toBe('{"outcome":"handled"}');
});

const reply = (status: number, outcome?: string, elapsedMs = 1): EndpointAnswer => ({
  kind: 'reply',
  status,
  outcome,
  code: undefined,
  elapsedMs,
});

test('a duplicate shows an effect unless the endpoint answered ignored before', () => {
  const [duplicate, ignored] = [reply(200, 'duplicate'), reply(200, 'ignored')];
  for (const before of [null, toLastError(reply(500), null), toLastError(reply(200, 'parked'), null)])
    expect(hasTakenEffect(duplicate, before)).toBe(true);
  for (const before of [toLastError(ignored, null), toLastError(reply(500), toLastError(ignored, null))])
    expect(hasTakenEffect(duplicate, before)).toBe(false);
});

test('the summary counts the answers of each kind, timeouts included', () => {
  const answers = [
    ...Array.from({ length: 10 }, () => reply(200, 'handled', 5)),
    { kind: 'silence', elapsedMs: 10_000 } as const,
  ];
  const rows = answers.map((answer) => ({ answer }));
  expect(summarise(rows, 11)).toBe('11 of 11 sent: 10 × 200 handled, 1 × no response');
  expect(summarise(rows.slice(1), 11)).toBe('10 of 11 sent: 9 × 200 handled, 1 × no response');
});

test('a timeout, a cut connection and a refused one are told apart', async () => {
  await using slow = await serve(() => undefined);
  await using cutting = await serve((request) => void request.socket.destroy());
  const options = { headers: {}, body: new Uint8Array(), timeoutMs: 60_000 };
  const said = async (url: string, timeoutMs = 60_000) =>
    describeAnswer((await deliver(url, { ...options, timeoutMs })).answer);
  expect(await said(slow.url, 50)).toMatch(/^no response in \d+ ms$/);
  expect(await said(cutting.url)).toBe('the connection was cut (ECONNRESET)');
  expect(await said(await findClosedUrl())).toBe('nothing is listening there (ECONNREFUSED)');
  expect(describeAnswer({ kind: 'silence', elapsedMs: 10_004 })).toBe('no response in 10 s');
  expect(describeAnswer({ kind: 'unreachable', reason: 'DEPTH_ZERO_SELF_SIGNED_CERT', elapsedMs: 1 })).toBe(
    'its certificate is not trusted (DEPTH_ZERO_SELF_SIGNED_CERT)',
  );
});
