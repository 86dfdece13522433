import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A request as it arrived. */
export interface Arrived {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Answers one request, or never answers it. */
export type Answer = (response: ServerResponse, request: Arrived) => void;

export const TOKEN = 'tok_5f0c3b9e77';

/** Starts a service that gives these answers in order, and then the last one each time. Closed when the test ends. */
export async function misbehavingService(
  ...answers: readonly Answer[]
): Promise<{ readonly baseUrl: string; readonly arrived: readonly Arrived[] }> {
  const arrived: Arrived[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const { method = '', url = '', headers } = request;
    arrived.push({ method, url, headers, body });
    answers[Math.min(arrived.length, answers.length) - 1]?.(response, { method, url, headers, body });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, arrived };
}

export function json(value: unknown, { status = 200, headers = {} } = {}): Answer {
  return text(JSON.stringify(value), { status, headers });
}

export function text(body: string, { status = 200, headers = {} } = {}): Answer {
  return (response) => response.writeHead(status, headers).end(body);
}
