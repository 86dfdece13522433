/**
 * A process that serves receivers by the adapters for Express, Fastify and node:http. It answers the questions that it
 * gets as messages. The first of them can give it a fault, which the fuzzer must find.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import express from 'express';
import fastify from 'fastify';
import { createReceiver, EVENT_TYPES, memoryInbox, type Receiver, type UnknownEvent } from 'stablehooks';
import { toExpressHandler } from 'stablehooks/express';
import { toFastifyPlugin } from 'stablehooks/fastify';
import { toNodeHandler } from 'stablehooks/node';
import { CONFIDENTIAL, eventOf, MAX_BODY_BYTES, SECRET } from './requests.js';
import { SOCKET_FAULTS, type SocketFault } from './socket-faults.js';

/** To serve, with the limits of the receivers and of the servers; the answer is the ports. Then for reports. */
export type Question =
  | {
      readonly ask: 'start';
      readonly bodyMs: number;
      readonly serverMs: number;
      readonly fault: keyof typeof SOCKET_FAULTS | undefined;
    }
  | { readonly ask: 'report'; readonly waitMs: number };

/** What happened since the last time. */
export interface ServerReport {
  /** By `eventOf`. */
  readonly handled: readonly string[];
  /** Whether a line of the log, of stdout or of stderr held something confidential. */
  readonly leaks: boolean;
  /** Bytes in use after a collection, of the heap and of buffers. */
  readonly heapBytes: number;
  /** Connections that the clients have closed, and that outlive the limits of the servers. */
  readonly connections: number;
}

const handled: string[] = [];
let leaks = false;
const log = (line: string) => {
  leaks ||= CONFIDENTIAL.test(line);
};

// Warnings of Node and errors that nobody catches are printed there.
for (const stream of [process.stdout, process.stderr]) {
  const write = stream.write.bind(stream);
  stream.write = ((chunk: string | Uint8Array, ...rest: []) => {
    log(String(chunk));
    return write(chunk, ...rest);
  }) as typeof stream.write;
}

const handler = (event: UnknownEvent) => void handled.push(eventOf(event.id, JSON.stringify(event)));

const servers: Server[] = [];
const sockets = new Set<Socket>();

/** An inbox remembers every event, so each report is followed by new ones. */
const renewals: (() => void)[] = [];

async function start({
  bodyMs,
  serverMs,
  fault: name,
}: Extract<Question, { ask: 'start' }>): Promise<readonly number[]> {
  const fault: SocketFault | undefined = name && SOCKET_FAULTS[name];
  const renewed = (): Receiver => {
    let current = memoryInbox();
    renewals.push(() => {
      current = memoryInbox();
    });
    return createReceiver({
      inbox: new Proxy(current, { get: (_, name) => Reflect.get(current, name) }),
      secret: SECRET,
      handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, handler])),
      logger: { warn: log, error: log },
      maxBodyBytes: MAX_BODY_BYTES,
      bodyTimeoutMs: bodyMs,
      use: fault?.layer === undefined ? [] : [fault.layer({ log, handler })],
    });
  };
  const timeouts = {
    requestTimeout: serverMs,
    headersTimeout: serverMs,
    keepAliveTimeout: serverMs,
    connectionsCheckingInterval: 1_000,
  };
  const app = express();
  app.all('/hooks', toExpressHandler(renewed()));
  const plugin = fastify({ http: timeouts, requestTimeout: serverMs, keepAliveTimeout: serverMs });
  await plugin.register(toFastifyPlugin(renewed()), { prefix: '/hooks' });
  await plugin.ready();
  servers.push(createServer(timeouts, toNodeHandler(renewed())), createServer(timeouts, app), plugin.server);
  for (const server of servers) {
    fault?.serve?.(server);
    server.on('connection', (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
  }
  return servers.map((server) => (server.address() as AddressInfo).port);
}

/** @param waitMs - how long connections may take to end by the servers' limits */
async function toReport(waitMs: number): Promise<ServerReport> {
  // The clients have closed: what is still open ends by the servers' time limits.
  const ended = [...sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
  const limit = new AbortController();
  await Promise.race([Promise.all(ended), pause(waitMs, undefined, limit).catch(() => undefined)]);
  limit.abort();
  const report = { handled: handled.splice(0), leaks, connections: sockets.size };
  for (const renew of renewals) renew();
  await new Promise((resolve) => setImmediate(resolve));
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return { ...report, heapBytes: heapUsed + external };
}

process.on('message', async (question: Question) => {
  process.send?.(question.ask === 'start' ? await start(question) : await toReport(question.waitMs));
});
// Nothing is left that keeps the process, so it ends by itself.
process.once('disconnect', () => {
  for (const server of servers) server.close();
});
