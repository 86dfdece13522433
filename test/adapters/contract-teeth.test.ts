import { createServer, type RequestListener } from 'node:http';
import express from 'express';
import { toWebhookResponse } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { adapterContract, createContractReceiver } from 'stablehooks-kit/conformance';
import { afterEach, expect, test } from 'vitest';
import { listen, type Running } from './listening.js';

let running: Running | undefined;
afterEach(() => running?.close());

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

/** Servers, the cases that must refuse each, and how many of those there are at least. */
test.each([
  {
    fault: 'answers 200 to every request',
    start: acceptingServer,
    breaks: /answered (4|duplicate|parked|ERR_)|, then duplicate|exactly one/,
    atLeast: 40,
  },
  {
    fault: 'verifies the parsed body, written as JSON again',
    start: rewritingServer,
    breaks:
      /pretty-printed|escaped|20-digit|trailing zeros|repeated key|keys that are|byte order|gained one space/,
    atLeast: 9,
  },
  {
    fault: 'verifies the decoded body',
    start: decodingServer,
    breaks: /with invalid UTF-8/,
    atLeast: 2,
  },
  {
    fault: 'puts the error of the handler into its reply',
    start: disclosingServer,
    breaks: /whose handler does "throw(-string|-once)?"/,
    atLeast: 3,
  },
  {
    fault: 'does not hand in the URL',
    start: pathlessServer,
    breaks: /the path, the query and the headers/,
    atLeast: 3,
  },
  {
    fault: 'uses a new inbox for each delivery',
    start: forgettingServer,
    breaks: /, then duplicate|exactly one/,
    atLeast: 3,
  },
])(
  'a server that $fault fails the cases of the adapter contract that this breaks',
  async ({ start, breaks, atLeast }) => {
    running = await listen(createServer(start()));
    const { url } = running;
    const cases = adapterContract.filter(({ name }) => breaks.test(name));
    expect(cases.length).toBeGreaterThanOrEqual(atLeast);

    const verdicts = await Promise.allSettled(cases.map(({ run }) => run({ url })));
    const kept = cases.filter((_, index) => verdicts[index]?.status === 'fulfilled');

    expect(kept.map(({ name }) => name)).toEqual([]);
  },
);
