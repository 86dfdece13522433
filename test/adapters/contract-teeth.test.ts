import { createServer, type RequestListener } from 'node:http';
import express from 'express';
import { toWebhookResponse } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { adapterContract, createContractReceiver } from 'stablehooks-kit/conformance';
import { afterEach, expect, test } from 'vitest';
import { listen, type Running } from './listening.js';

let running: Running | undefined;
afterEach(() => running?.close());

/** Answers 200 to every request. */
function acceptingServer(): RequestListener {
  return (request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"outcome":"handled"}');
  };
}

/** Verifies the parsed body, written as JSON again. */
function rewritingServer(): RequestListener {
  const handler = toNodeHandler(createContractReceiver());
  const app = express();
  app.use(express.json({ limit: '2mb', type: () => true }), (request, response) => {
    return handler(Object.assign(request, { rawBody: Buffer.from(JSON.stringify(request.body)) }), response);
  });
  return app;
}

/** Verifies the decoded body, in which U+FFFD replaces invalid UTF-8. */
function decodingServer(): RequestListener {
  const handler = toNodeHandler(createContractReceiver());
  const app = express();
  app.use(express.text({ limit: '2mb', type: () => true }), (request, response) => {
    return handler(Object.assign(request, { rawBody: Buffer.from(String(request.body)) }), response);
  });
  return app;
}

/** Puts the error of the handler into its reply. */
function disclosingServer(): RequestListener {
  const receiver = createContractReceiver();
  return async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const outcome = await receiver.receive({
      method: request.method ?? '',
      header: (name) => request.headers[name.toLowerCase()]?.toString(),
      body: async () => Buffer.concat(chunks),
    });
    const { status, headers, body } = toWebhookResponse(outcome);
    const reply = { ...JSON.parse(body), title: String(outcome.error?.cause) };
    response.writeHead(status, headers).end(JSON.stringify(reply));
  };
}

/** Uses a new inbox for each delivery. */
function forgettingServer(): RequestListener {
  return (request, response) => toNodeHandler(createContractReceiver())(request, response);
}

/** Does not hand in the URL, which its framework has in another place. */
function pathlessServer(): RequestListener {
  const handler = toNodeHandler(createContractReceiver());
  return (request, response) => handler(Object.assign(request, { url: undefined }), response);
}

test.each([
  {
    fault: 'answers 200 to every request',
    start: acceptingServer,
    breaks: [
      'a delivery with no signature is answered 401 ERR_SIGNATURE_MISSING',
      'a delivery with the right signature twice is answered 401 ERR_SIGNATURE_MALFORMED',
      'a body that gained one space after signing is answered 401 ERR_SIGNATURE_MISMATCH',
      'an event whose handler does "throw" is answered ERR_HANDLER_FAILED, then ERR_HANDLER_FAILED',
      'an event whose handler does "succeed" is answered handled, then duplicate, then duplicate',
      'of 8 simultaneous deliveries of one event exactly one is handled',
      'a body one byte over the limit is answered 413',
      'a gzipped body is answered 415, whether the compressed or the plain bytes were signed',
      'an event of an unknown type is parked and answered 200 at every delivery',
      'a GET request is answered 405',
    ],
  },
  {
    fault: 'verifies the parsed body, written as JSON again',
    start: rewritingServer,
    breaks: [
      'a pretty-printed body is verified byte for byte and handled',
      'a body with escaped slashes is verified byte for byte and handled',
      'a body with escaped letters is verified byte for byte and handled',
      'a body with a 20-digit integer is verified byte for byte and handled',
      'a body with trailing zeros in numbers is verified byte for byte and handled',
      'a body with a repeated key is verified byte for byte and handled',
      'a body with keys that are integers is verified byte for byte and handled',
      'a body with a byte order mark is verified byte for byte and handled',
      'a body that gained one space after signing is answered 401 ERR_SIGNATURE_MISMATCH',
    ],
  },
  {
    fault: 'verifies the decoded body',
    start: decodingServer,
    breaks: [
      'a body with invalid UTF-8 is answered 401 when its U+FFFD replacement was signed',
      'a signed body with invalid UTF-8 is answered 400',
    ],
  },
  {
    fault: 'puts the error of the handler into its reply',
    start: disclosingServer,
    breaks: [
      'an event whose handler does "throw" is answered ERR_HANDLER_FAILED, then ERR_HANDLER_FAILED',
      'an event whose handler does "throw-string" is answered ERR_HANDLER_FAILED, then ERR_HANDLER_FAILED',
      'an event whose handler does "throw-once" is answered ERR_HANDLER_FAILED, then handled, then duplicate',
    ],
  },
  {
    fault: 'does not hand in the URL',
    start: pathlessServer,
    breaks: [
      'a secret function receives the path, the query and the headers of a delivery with no query',
      'a secret function receives the path, the query and the headers of a delivery with a query',
    ],
  },
  {
    fault: 'uses a new inbox for each delivery',
    start: forgettingServer,
    breaks: [
      'an event whose handler does "succeed" is answered handled, then duplicate, then duplicate',
      'of 8 simultaneous deliveries of one event exactly one is handled',
      'an event whose handler does "throw-once" is answered ERR_HANDLER_FAILED, then handled, then duplicate',
    ],
  },
])(
  'a server that $fault fails the cases of the adapter contract that this breaks',
  async ({ start, breaks }) => {
    running = await listen(createServer(start()));
    const { url } = running;
    const cases = adapterContract.filter(({ name }) => breaks.includes(name));
    expect(cases).toHaveLength(breaks.length);

    const verdicts = await Promise.allSettled(cases.map(({ run }) => run({ url })));
    const kept = cases.filter((_, index) => verdicts[index]?.status === 'fulfilled');

    expect(kept.map(({ name }) => name)).toEqual([]);
  },
);
