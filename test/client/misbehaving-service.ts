import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createClient } from 'stablehooks/client';
import { onTestFinished } from 'vitest';
import { collectDeviations, requestDeviations } from '../openapi/check.js';

export interface Arrived {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Answers one request, or never answers it. */
export type Answer = (response: ServerResponse, request: Arrived) => void;

export const TOKEN = 'tok_5f0c3b9e77';

export interface MisbehavingService {
  readonly baseUrl: string;
  readonly arrived: readonly Arrived[];
}

/**
 * Starts a service that gives these answers in order, and then the last one each time. Closed when the test ends, which
 * fails if a request was not as `openapi.json` describes it.
 */
export async function misbehavingService(...answers: readonly Answer[]): Promise<MisbehavingService> {
  const { arrived, listener } = answering(answers);
  return { baseUrl: `http://${await listen(createServer(listener))}`, arrived };
}

/** As {@link misbehavingService}, by https with a certificate that is not trusted. */
export async function selfSignedService(answer: Answer): Promise<MisbehavingService> {
  const pem = readFileSync(new URL('self-signed.pem', import.meta.url));
  const { arrived, listener } = answering([answer]);
  const server = createTlsServer({ key: pem, cert: pem }, listener);
  return { baseUrl: `https://${await listen(server)}`, arrived };
}

/** Reads a list from a response, without a service. */
export function readList(response: Response) {
  const fetch = async () => response;
  return createClient({ baseUrl: 'http://service.test', token: TOKEN, fetch }).events.listWithProblems();
}

function answering(answers: readonly Answer[]): { arrived: Arrived[]; listener: RequestListener } {
  const arrived: Arrived[] = [];
  const collect = collectDeviations();
  const listener: RequestListener = async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { method = '', url = '', headers } = request;
    arrived.push({ method, url, headers, body });
    collect(`${method} ${url}`, requestDeviations({ method, url, headers, body }));
    answers[Math.min(arrived.length, answers.length) - 1]?.(response, { method, url, headers, body });
  };
  return { arrived, listener };
}

async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export function json(value: unknown, { status = 200, headers = {} } = {}): Answer {
  return text(JSON.stringify(value), { status, headers });
}

export function text(body: string, { status = 200, headers = {} } = {}): Answer {
  return (response) => response.writeHead(status, headers).end(body);
}
