import { createServer, type RequestListener } from 'node:http';
import { buffer } from 'node:stream/consumers';
import express from 'express';
import { toWebhookResponse } from 'stablehooks';
import { toNodeHandler } from 'stablehooks/node';
import { afterEach, expect, test } from 'vitest';
import { adapterContract, createContractReceiver } from '../contracts/index.js';
import { listen, type Running } from './listening.js';

let running: Running | undefined;
afterEach(() => running?.close());

const toContract = () => toNodeHandler(createContractReceiver());

/** A server whose parser leaves the body, and that verifies the bytes which are made of it. */
function parsingServer(parse: typeof express.json | typeof express.text, toText: (body: unknown) => string) {
  const handler = toContract();
  return express().use(parse({ limit: '2mb', type: () => true }), (request, response) =>
    handler(Object.assign(request, { rawBody: Buffer.from(toText(request.body)) }), response),
  );
}

/** Servers, the cases that must refuse each, and how many of those there are at least. */
test.each<{ fault: string; start: () => RequestListener; breaks: RegExp; atLeast: number }>([
  {
    fault: 'answers 200 to every request',
    start: () => (request, response) => {
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"outcome":"handled"}');
    },
    breaks: /answered (4|duplicate|parked|ERR_)|, then duplicate|exactly one/,
    atLeast: 40,
  },
  {
    fault: 'verifies the parsed body, written as JSON again',
    start: () => parsingServer(express.json, JSON.stringify),
    breaks:
      /pretty-printed|escaped|20-digit|trailing zeros|repeated key|keys that are|byte order|gained one space/,
    atLeast: 9,
  },
  {
    fault: 'verifies the decoded body',
    // U+FFFD replaces invalid UTF-8.
    start: () => parsingServer(express.text, String),
    breaks: /with invalid UTF-8/,
    atLeast: 2,
  },
  {
    fault: 'puts the error of the handler into its reply',
    start() {
      const receiver = createContractReceiver();
      return async (request, response) => {
        const received = await buffer(request);
        const outcome = await receiver.receive({
          method: request.method ?? '',
          header: (name) => request.headers[name.toLowerCase()]?.toString(),
          body: async () => received,
        });
        const { status, headers, body } = toWebhookResponse(outcome);
        const reply = { ...JSON.parse(body), title: String(outcome.error?.cause) };
        response.writeHead(status, headers).end(JSON.stringify(reply));
      };
    },
    breaks: /whose handler does "throw(-string|-once)?"/,
    atLeast: 3,
  },
  {
    fault: 'does not hand in the URL',
    start() {
      const handler = toContract();
      return (request, response) => handler(Object.assign(request, { url: undefined }), response);
    },
    breaks: /the path, the query and the headers/,
    atLeast: 3,
  },
  {
    fault: 'uses a new inbox for each delivery',
    start: () => (request, response) => toContract()(request, response),
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
