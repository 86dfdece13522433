/**
 * A process that serves receivers by the adapters for Express, Fastify and node:http. It answers the questions that it
 * gets as messages. The first of them can give it a fault, which the fuzzer must find.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import express from 'express';
import fastify from 'fastify';
import { createReceiver, type Receiver } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toNodeHandler } from 'stablehooks/node';
import { digestOf, MAX_BODY_BYTES } from './requests.js';
import { addFault, faultyReceiver } from './socket-faults.js';

/** How long something may take, in ms. Each is well above the one before, which therefore ends first. */
export interface Limits {
  /** A body; a limit of the receivers. */
  readonly bodyMs: number;
  /** The headers, a request, or the wait for the next one; a limit of the servers. */
  readonly serverMs: number;
  /** A connection; what lasts longer is a finding. */
  readonly connectionMs: number;
  /** An answer of the process; a report waits for connections. */
  readonly answerMs: number;
}

export type Question =
  | {
      readonly ask: 'start';
      readonly secret: string;
      readonly marker: string;
      readonly limits: Limits;
      readonly fault: string | undefined;
    }
  /** What was handled and logged since the last time, and how much memory is in use. New receivers follow. */
  | { readonly ask: 'report' }
  | { readonly ask: 'close' };

export interface ServerReport {
  readonly handled: readonly { readonly id: string; readonly digest: string }[];
  /** How many lines of the log, of stdout or of stderr held something confidential. */
  readonly leaks: number;
  /** Bytes in use after a collection, of the heap and of buffers. */
  readonly heapBytes: number;
  /** Connections that the clients have closed, and that outlive the limits of the servers. */
  readonly connections: number;
}

const handled: { id: string; digest: string }[] = [];
let leaks = 0;
let connectionMs = 0;
const servers: Server[] = [];
const sockets = new Set<Socket>();

function startServing({
  secret,
  marker,
  limits,
  fault,
}: Extract<Question, { ask: 'start' }>): Promise<readonly number[]> {
  connectionMs = limits.connectionMs;
  const isLeak = (text: string) =>
    text.includes(marker) || text.includes(secret) || /[0-9a-f]{64}/.test(text);
  const log = (line: string) => {
    if (isLeak(line)) leaks += 1;
  };
  // Warnings of Node and errors that nobody catches are printed there.
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream);
    stream.write = ((chunk: string | Uint8Array, ...rest: []) => {
      log(String(chunk));
      return write(chunk, ...rest);
    }) as typeof stream.write;
  }
  const handler = (event: { readonly id: string }) => {
    handled.push({ id: event.id, digest: digestOf(JSON.stringify(event)) });
  };
  const open = (): Receiver => {
    const receiver = createReceiver({
      secret,
      handlers: {
        'accept.confirmed': handler,
        'transfer.settled': handler,
        'transfer.failed': handler,
        'redeem.completed': handler,
        'redeem.failed': handler,
      },
      logger: { warn: log, error: log },
      maxBodyBytes: MAX_BODY_BYTES,
      bodyTimeoutMs: limits.bodyMs,
    });
    return faultyReceiver(fault, receiver, { log, handler });
  };
  return listen(open, { limits, fault });
}

/** Receivers of the adapters: an inbox remembers every event, so that each report is followed by new ones. */
const renewals: (() => void)[] = [];

async function listen(
  open: () => Receiver,
  { limits: { serverMs }, fault }: Pick<Extract<Question, { ask: 'start' }>, 'limits' | 'fault'>,
): Promise<readonly number[]> {
  const timeouts = {
    requestTimeout: serverMs,
    headersTimeout: serverMs,
    keepAliveTimeout: serverMs,
    connectionsCheckingInterval: 1_000,
  };
  const renewed = (): Receiver => {
    let current = open();
    renewals.push(() => {
      current = open();
    });
    return { ...current, receive: (request) => current.receive(request) };
  };
  const app = express();
  app.all('/hooks', toExpressHandler(renewed()));
  const plugin = fastify({ http: timeouts, requestTimeout: serverMs, keepAliveTimeout: serverMs });
  await plugin.register(toFastifyPlugin(renewed()), { prefix: '/hooks' });
  await plugin.ready();
  servers.push(createServer(timeouts, toNodeHandler(renewed())), createServer(timeouts, app), plugin.server);
  const ports: number[] = [];
  for (const server of servers) {
    addFault(fault, server);
    server.on('connection', (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    ports.push((server.address() as AddressInfo).port);
  }
  return ports;
}

async function toReport(): Promise<ServerReport> {
  // The clients have closed: what is still open ends by the servers' time limits.
  const ended = [...sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
  const limit = new AbortController();
  await Promise.race([Promise.all(ended), setTimeout(connectionMs, undefined, limit).catch(() => undefined)]);
  limit.abort();
  let connections = 0;
  for (const server of servers) {
    connections += await new Promise<number>((resolve, reject) =>
      server.getConnections((error, open) => (error === null ? resolve(open) : reject(error))),
    );
  }
  for (const renew of renewals) renew();
  const report = { handled: handled.splice(0), leaks, connections };
  await new Promise((resolve) => setImmediate(resolve));
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return { ...report, heapBytes: heapUsed + external };
}

// The fuzzer has ended without asking for it.
const end = () => process.exit(1);
process.once('disconnect', end);

process.on('message', async (question: Question) => {
  const answer = (value: unknown) => process.send?.(value);
  if (question.ask === 'start') answer(await startServing(question));
  if (question.ask === 'report') answer(await toReport());
  if (question.ask === 'close') {
    // Nothing is left that keeps the process, so that it ends by itself.
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    process.off('disconnect', end);
    process.disconnect();
  }
});
