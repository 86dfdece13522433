/** Receivers with one fault each, which doctor must find. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { type RequestListener, request as requestHttp } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import express from 'express';
import { type RunningServer, serve } from '../http-server.js';
import {
  answer,
  createLedger,
  createPlainReceiver,
  hmac,
  readBody,
  type Steps,
  signatureOf,
  takeOnce,
  verifyRaw,
} from './plain-receiver.js';

/** Makes a receiver with one fault. `GET /effects/{id}` answers how often an event took effect. */
export type WrongReceiver = (secret: string) => RequestListener;

/** A right receiver, apart from these steps. */
export const wrong =
  (steps: (secret: string) => Partial<Steps>): WrongReceiver =>
  (secret) =>
    createPlainReceiver(secret, steps(secret));

/** Checks whether the event is known, and records it later: concurrent deliveries both find it new. */
export const checkThenInsert: WrongReceiver = (secret) => {
  const known = new Set<string>();
  let waiting = 0;
  let overlap = () => {};
  const overlapped = new Promise<void>((resolve) => {
    overlap = resolve;
  });
  return createPlainReceiver(secret, {
    async take(id, ledger) {
      if (known.has(id)) return;
      // Of the event that doctor delivers concurrently, the first delivery waits here for a second one.
      if (id.endsWith('_concurrent')) {
        waiting += 1;
        if (waiting === 2) overlap();
        await overlapped;
      }
      ledger.apply(id);
      known.add(id);
    },
  });
};

/** Acts as soon as the id of an event has arrived. It reads the rest, verifies it and answers as it should afterwards. */
export const actsBeforeVerify: WrongReceiver = (secret) => {
  const ledger = createLedger();
  const receive = createPlainReceiver(secret, { take: () => undefined }, ledger);
  return (request, response) => {
    let begin = '';
    request.on('data', (chunk: Buffer) => {
      if (begin.length < 200) begin += chunk.toString();
      const [, id] = /"id": ?"(\w[\w-]*)"/.exec(begin) ?? [];
      if (id !== undefined) takeOnce(id, ledger);
    });
    return receive(request, response);
  };
};

/** Mounts `express.json()` first, so that no bytes are left to verify. */
export const parserFirst: WrongReceiver = (secret) => {
  const app = express();
  app.use(express.json());
  app.post('/hooks', async (request, response) => {
    const body = (await readBody(request)) ?? Buffer.alloc(0);
    if (signatureOf(request) !== hmac(secret, body)) return answer(response, 401);
    answer(response, 200, 'ok');
  });
  return app;
};

/** Mounts `express.json()` first, and waits for an `end` event that was emitted before. */
export const parserFirstHanging: WrongReceiver = (secret) => {
  const app = express();
  app.use(express.json());
  app.post('/hooks', (request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const genuine = signatureOf(request) === hmac(secret, Buffer.concat(pieces));
      answer(response, genuine ? 200 : 401);
    });
  });
  return app;
};

/** How long the work takes, in ms. */
export const WORK_MS = 8_000;

/** Does its work before it answers, and the work is slow. */
export const slow = wrong(() => ({
  async take(id, ledger) {
    await wait(WORK_MS);
    takeOnce(id, ledger);
  },
}));

/** Answers each genuine delivery in the same way. No event has an effect. */
export function answering(status: number, reply = '', { large = 413 } = {}): WrongReceiver {
  return (secret) => async (request, response) => {
    if (request.url?.startsWith('/effects/')) return answer(response, 200, '0');
    // A body that is cut off has no end to wait for.
    const body = await readBody(request).catch(() => undefined);
    if (body === undefined) return answer(response, large);
    const isGenuine = verifyRaw(secret)(body, signatureOf(request));
    return isGenuine ? answer(response, status, reply) : answer(response, 401);
  };
}

/** Answers every request in the same way, as something in front of an endpoint does. */
export function always(
  status: number,
  text: string,
  headers?: Readonly<Record<string, string>>,
): WrongReceiver {
  return () => (request, response) =>
    void request.resume().on('end', () => answer(response, status, text, headers));
}

/** A right receiver behind a proxy that writes JSON again, with an indent. */
export async function startPrettyPrintingProxy(secret: string): Promise<RunningServer> {
  const receiver = await serve(createPlainReceiver(secret));
  const proxy = await serve(async (incoming, response) => {
    const body = (await readBody(incoming)) ?? Buffer.alloc(0);
    const pretty = body.length === 0 ? '' : JSON.stringify(JSON.parse(body.toString()), null, 2);
    const headers = { ...incoming.headers, 'content-length': Buffer.byteLength(pretty) };
    requestHttp(receiver.url, { method: incoming.method, headers, agent: false }, (reply) => {
      response.writeHead(reply.statusCode ?? 502);
      reply.pipe(response);
    })
      .on('error', () => answer(response, 502))
      .end(pretty);
  });
  return {
    url: proxy.url,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}

const PROGRAM = fileURLToPath(new URL('./cluster-process.ts', import.meta.url));

/** Several processes behind one port, each with a memory inbox. */
export async function startClusterWithMemory(secret: string): Promise<RunningServer> {
  const primary = fork(PROGRAM, { execArgv: ['--import', 'tsx'], env: { ...process.env, SECRET: secret } });
  const [port] = await once(primary, 'message');
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      const exit = once(primary, 'exit');
      primary.disconnect();
      await exit;
    },
  };
}
