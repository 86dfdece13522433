import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createAdaptorServer } from '@hono/node-server';
import express from 'express';
import express4 from 'express4';
import fastify from 'fastify';
import { Hono } from 'hono';
import { createReceiver, type Handler, type UnknownPayload } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toFetchHandler } from 'stablehooks/fetch';
import { toNextApiRoute, toNextRoute } from 'stablehooks/next';
import { toNodeHandler } from 'stablehooks/node';
import { describe, expect, test } from 'vitest';
import { createFetchServer } from '../../../test/adapters/fetch-server.js';
import { run, SECRET, start } from '../command.js';
import { serve } from '../http-server.js';
import { ackBeforeFailure } from './wrong-receivers/ack-before-failure.js';
import { checkThenInsert } from './wrong-receivers/check-then-insert.js';
import { hangs } from './wrong-receivers/hangs.js';
import { noDedupe } from './wrong-receivers/no-dedupe.js';
import { otherEncoding } from './wrong-receivers/other-encoding.js';
import { parserFirst } from './wrong-receivers/parser-first.js';
import { parserFirstHanging } from './wrong-receivers/parser-first-hanging.js';
import { reStringifiedBody } from './wrong-receivers/re-stringified-body.js';
import { recordBeforeWork } from './wrong-receivers/record-before-work.js';
import { refusesUnknown } from './wrong-receivers/refuses-unknown.js';
import { takesForged } from './wrong-receivers/takes-forged.js';
import { createPlainReceiver, takeOnce, verifyRaw } from './wrong-receivers/wrong-receiver.js';

/** A line of the report. */
interface Line {
  readonly name: string;
  readonly verdict: string;
  readonly got: string;
  readonly fix?: string;
}

async function examine(url: string, flags: readonly string[] = []) {
  const ended = await run(['doctor', url, '--json', ...flags]);
  const { checks = [] } = JSON.parse(ended.stdout || '{}') as { readonly checks?: readonly Line[] };
  return { ...ended, checks, wrong: checks.filter(({ verdict }) => verdict !== 'pass') };
}

const handler: Handler<'accept.confirmed', UnknownPayload, undefined> = ({ payload }) => {
  if (payload['doctor'] === 'failing-handler') throw new Error('asked to fail');
};
const quiet = { secret: SECRET, onOutcome: () => undefined };
const failing = () => createReceiver({ ...quiet, handlers: { 'accept.confirmed': handler } });
const plain = () => createReceiver({ ...quiet, handlers: { 'accept.confirmed': () => undefined } });

const adapters: Readonly<Record<string, () => Promise<RequestListener | ReturnType<typeof createServer>>>> = {
  'Express 5': async () => express().all('/hooks', toExpressHandler(failing())),
  'Express 4': async () => express4().all('/hooks', toExpressHandler(plain())),
  Fastify: async () => {
    const app = fastify();
    await app.register(toFastifyPlugin(failing()), { prefix: '/hooks' });
    await app.ready();
    return app.server;
  },
  'node:http': async () => toNodeHandler(plain()),
  Hono: async () => {
    const handler = toFetchHandler(failing());
    const app = new Hono().all('/hooks', ({ req }) => handler(req.raw));
    return createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as ReturnType<
      typeof createServer
    >;
  },
  fetch: async () => createFetchServer(toFetchHandler(plain())),
  'Next App Router': async () => {
    const { POST } = toNextRoute(failing());
    return createFetchServer(async (request) =>
      request.method === 'POST' ? POST(request) : new Response(null, { status: 405 }),
    );
  },
  'Next Pages Router': async () => createServer(toNextApiRoute(plain())),
};

describe.concurrent('right endpoints', () => {
  test.for(Object.entries(adapters))('every check of doctor passes on %s', async ([, start]) => {
    await using server = await serve(await start());
    const { exitCode, wrong, checks } = await examine(`${server.url}/hooks`);
    expect(wrong).toEqual([]);
    expect(checks).toHaveLength(14);
    expect(exitCode).toBe(0);
  });

  test('every check of doctor passes on another receiver whose effects can be counted', async () => {
    await using server = await serve(createPlainReceiver({ authentic: verifyRaw(SECRET), take: takeOnce }));
    const { wrong } = await examine(`${server.url}/hooks`, ['--effects', `${server.url}/effects/{id}`]);
    expect(wrong).toEqual([]);
  });
});

const faults = [
  {
    receiver: parserFirst,
    check: 'genuine',
    fix: /body parser before the receiver/,
    neverAnswers: true,
  },
  {
    receiver: parserFirstHanging,
    check: 'genuine',
    fix: /body parser before the receiver/,
    neverAnswers: true,
  },
  { receiver: reStringifiedBody, check: 'pretty-printed', fix: /parsed and serialized again/ },
  { receiver: otherEncoding, check: 'genuine', fix: /signature as base64 only/ },
  { receiver: noDedupe, check: 'doubled', fix: /Claim each event by its id/ },
  { receiver: checkThenInsert, check: 'concurrent duplicates', fix: /one atomic step/ },
  { receiver: ackBeforeFailure, check: 'failing handler', fix: /2xx before the work is done/ },
  { receiver: recordBeforeWork, check: 'failing handler', fix: /after the work, not before/ },
  { receiver: takesForged, check: 'forged', fix: /Verify before anything else/ },
  { receiver: refusesUnknown, check: 'unknown type', fix: /newer than this release/ },
  { receiver: hangs, check: 'genuine', fix: /never answers/, neverAnswers: true },
] as const;

describe.concurrent('wrong endpoints', () => {
  test.for(faults)('doctor finds the fault of $receiver.name', async ({ receiver, check, fix, ...fault }) => {
    await using server = await serve(receiver(SECRET));
    // A short limit is for receivers that never answer; others must not exceed theirs on a busy machine.
    const neverAnswers = 'neverAnswers' in fault;
    const flags = ['--timeout', neverAnswers ? '3s' : '15s', '--effects', `${server.url}/effects/{id}`];
    const { exitCode, wrong } = await examine(`${server.url}/hooks`, flags);
    const found = wrong.find(({ name }) => name === check);
    expect(found).toMatchObject({ verdict: 'fail', fix: expect.stringMatching(fix) });
    expect(exitCode).toBe(1);
  });

  test.for([noDedupe, ackBeforeFailure].map((receiver) => ({ receiver })))(
    'doctor does not pass $receiver.name without --effects, which the replies do not show',
    async ({ receiver }) => {
      await using server = await serve(receiver(SECRET));
      const { exitCode, wrong } = await examine(`${server.url}/hooks`);
      expect(wrong.map(({ verdict }) => verdict)).toEqual(['unproven', 'unproven', 'unproven']);
      expect(exitCode).toBe(1);
    },
  );
});

test('doctor prints a table and the fixes, and neither the secret nor colours into a pipe', async () => {
  await using server = await serve(takesForged(SECRET));
  const { stdout, stderr, exitCode } = await run(['doctor', `${server.url}/hooks`]);
  expect(stdout).toMatch(/^CHECK +EXPECTED +GOT +VERDICT\n/);
  expect(stdout).toMatch(/\nforged +401 +200 +fail\n/);
  expect(stdout).toContain('forged: Verify before anything else');
  expect(stdout + stderr).not.toContain(SECRET);
  expect(stdout).not.toContain('\u001b');
  expect(exitCode).toBe(1);
});

test('doctor is exit 3 when the endpoint cannot be reached', async () => {
  const { exitCode, stderr } = await run(['doctor', 'http://127.0.0.1:1/hooks']);
  expect(stderr).toMatch(/^stablehooks: .*cannot be reached \(ECONNREFUSED\).*\n$/);
  expect(exitCode).toBe(3);
});

describe.concurrent('an endpoint that closes connections', () => {
  /** A good receiver until the large body comes, to which `onLarge` is done. */
  const fragile = (onLarge: (request: IncomingMessage) => void): RequestListener => {
    const receive = toNodeHandler(plain());
    return (request, response) =>
      Number(request.headers['content-length']) > 1_048_576 ? onLarge(request) : receive(request, response);
  };

  test('doctor accepts a closed connection as a refusal if the endpoint answers afterwards', async () => {
    await using server = await serve(fragile((request) => void request.socket.destroy()));
    const { checks, exitCode } = await examine(`${server.url}/hooks`);
    expect(checks.find(({ name }) => name === 'oversized')).toMatchObject({ verdict: 'pass' });
    expect(exitCode).toBe(0);
  });

  test('doctor fails an endpoint that the oversized body ends, and says that nothing listens any more', async () => {
    const http = createServer(
      fragile(() => {
        http.close();
        http.closeAllConnections();
      }),
    );
    await using server = await serve(http);
    const { checks, exitCode } = await examine(`${server.url}/hooks`);
    expect(checks.find(({ name }) => name === 'oversized')).toMatchObject({
      verdict: 'fail',
      got: expect.stringMatching(/\(ECONNRESET|EPIPE\), then nothing listens there \(ECONNREFUSED\)$/),
    });
    const gone = checks.find(({ name }) => name === 'pretty-printed');
    expect(gone?.fix).toContain('Nothing listens any more');
    expect(exitCode).toBe(1);
  });

  test('doctor stopped by Ctrl-C does not count the interrupted check', async () => {
    let large = () => {};
    const arrived = new Promise<void>((resolve) => {
      large = resolve;
    });
    await using server = await serve(fragile(large));
    const command = start(['doctor', `${server.url}/hooks`]);
    await arrived;
    command.interrupt();
    const { stdout, exitCode } = await command.ended;
    expect(stdout).not.toContain('oversized');
    expect(stdout).toContain('5 of 14 passed');
    expect(exitCode).toBe(130);
  });
});

describe.concurrent('--effects', () => {
  test('doctor reports an unreachable --effects before the other checks', async () => {
    await using server = await serve(toNodeHandler(plain()));
    const ended = await examine(`${server.url}/hooks`, ['--effects', 'http://127.0.0.1:1/{id}']);
    expect(ended.checks.map(({ name }) => name)).toEqual(['genuine']);
    expect(ended.stderr).toMatch(/^stablehooks: --effects cannot be reached: .*ECONNREFUSED.*\n$/);
    expect(ended.exitCode).toBe(3);
  });

  test('doctor prints its results when --effects fails later', async () => {
    let asked = 0;
    await using effects = await serve((_, response) => void response.end(asked++ === 0 ? '1' : 'oops'));
    await using server = await serve(toNodeHandler(plain()));
    const ended = await examine(`${server.url}/hooks`, ['--effects', `${effects.url}/{id}`]);
    expect(ended.checks.at(-1)?.name).toBe('cut off');
    expect(ended.stderr).toMatch(/^stablehooks: --effects must answer 200 with how often/);
    expect(ended.exitCode).toBe(2);
  });
});

test('doctor needs the secret', async () => {
  const { exitCode, stderr } = await run(['doctor', 'http://127.0.0.1:1/'], {
    env: { STABLEHOOKS_SECRET: undefined },
  });
  expect(stderr).toContain('Set STABLEHOOKS_SECRET, or pass --secret-file FILE');
  expect(exitCode).toBe(2);
});
