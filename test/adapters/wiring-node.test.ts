import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import http2 from 'node:http2';
import { type AddressInfo, connect } from 'node:net';
import { toNodeHandler } from 'stablehooks/node';
import { exampleEvent, signedRequest } from 'stablehooks/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { deferred } from '../receiver/delivery.js';
import { listen } from './listening.js';
import { createObserved, deliverTo, expectUnavailable, secret } from './observed.js';

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

  test('a stream of HTTP/2 that is reset in the middle of its body is incomplete, and not forged', async () => {
    const { receiver, outcomes } = createObserved();
    const handler = toNodeHandler(receiver);
    const handled = deferred();
    const server = http2.createServer();
    server.on('stream', (stream) => stream.on('error', () => undefined));
    server.on('request', (request, response) => {
      // What Node's own types keep apart, frameworks pass on as the request and response of HTTP/1.1.
      const answered: unknown = handler(
        request as unknown as IncomingMessage,
        response as unknown as ServerResponse,
      );
      void Promise.resolve(answered).then(() => handled.resolve());
      request.once('data', () => stream.close(http2.constants.NGHTTP2_CANCEL));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const session = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    onTestFinished(() => {
      session.destroy();
      server.close();
    });
    const { headers } = await signedRequest(exampleEvent('transfer.settled'), { secret });
    const stream = session.request({ ...headers, ':method': 'POST' });
    stream.on('error', () => undefined);
    stream.write('{"id":');
    await handled.promise;
    expect(outcomes.map(({ error }) => error?.code)).toEqual(['ERR_BODY_INCOMPLETE']);
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
