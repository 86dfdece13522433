import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { toNodeHandler } from 'stablehooks/node';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listen } from './listening.js';
import { createObserved, deliverTo, expectUnavailable } from './observed.js';

describe('node:http', () => {
  test('a delivery whose stream has an encoding set is answered 500 ERR_BODY_UNAVAILABLE', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const server = createServer((request, response) => {
      request.setEncoding('utf8');
      void handler(request, response);
    });

    const message = await expectUnavailable(await deliverTo(server), outcomes);

    expect(message).toContain('rawBody: true');
  });

  test('close() does not wait for a body that never arrives', async () => {
    const { receiver } = createObserved({ bodyTimeoutMs: 2 ** 31 - 1 });
    const handler = toNodeHandler(receiver);
    const server = createServer((request, response) => void handler(request, response));
    const { url, close } = await listen(server);
    onTestFinished(close);
    const arrived = once(server, 'request');
    sendHalf(url);
    await arrived;

    await receiver.close();

    expect((await fetch(url, { method: 'POST' })).status).toBe(503);
  });

  test('a reply that other code has begun is kept, and the promise of the handler resolves', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const server = createServer(async (request, response) => {
      const handled = handler(request, response);
      response.writeHead(504).flushHeaders();
      await handled;
      response.end('too late');
    });

    const reply = await deliverTo(server);

    expect([reply.status, await reply.text()]).toEqual([504, 'too late']);
    expect(outcomes.map(({ kind }) => kind)).toEqual(['handled']);
  });
});

/** Sends the head of a delivery with a forged signature, and half of its body. */
function sendHalf(url: string) {
  const { port, host } = new URL(url);
  const socket = connect(Number(port), '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const head = ['POST /hooks HTTP/1.1', `host: ${host}`, `x-service-signature: ${'0'.repeat(64)}`];
  socket.write([...head, 'content-length: 10', '', 'half.'].join('\r\n'));
}
