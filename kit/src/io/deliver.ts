import { type ClientRequest, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { setTimeout as wait } from 'node:timers/promises';
import { type EndpointAnswer, MAX_REPLY_BYTES, readReport } from './answer.js';

export interface DeliveryRequest {
  /** @default 'POST' */
  readonly method?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Closes the connection after this many bytes of the body. @default sends the whole body */
  readonly cutAtBytes?: number | undefined;
  /** Sends the body in pieces, with pauses of this many ms. @default 0, which sends one piece */
  readonly pauseMs?: number | undefined;
  /** Sends the body in chunks, without its length (`Transfer-Encoding: chunked`). @default false */
  readonly chunked?: boolean | undefined;
}

const PIECES = 3;

export interface Reply {
  readonly headers: Readonly<Record<string, string>>;
  /** The first 64 KiB of the body. */
  readonly body: Buffer;
}

export interface Delivered {
  /** Contains no body, because commands keep thousands of these objects. */
  readonly answer: EndpointAnswer;
  readonly reply: Reply | undefined;
}

/** Never rejects and never follows redirects. */
export function deliver(url: string, delivery: DeliveryRequest): Promise<Delivered> {
  const start = performance.now();
  const elapsedMs = () => Math.round(performance.now() - start);
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const end = (answer: EndpointAnswer, reply?: Reply) => {
      clearTimeout(timer);
      resolve({ answer, reply });
    };
    const lose = (reason: string) => end({ kind: 'unreachable', reason, elapsedMs: elapsedMs() });
    const fail = (error: unknown) => lose(reasonOf(error));
    let sent: ClientRequest;
    try {
      sent = begin(url, delivery);
    } catch (error) {
      return fail(error);
    }
    timer = setTimeout(() => {
      end({ kind: 'silence', elapsedMs: elapsedMs() });
      sent.destroy();
    }, delivery.timeoutMs);
    sent.on('error', fail);
    sent.on('response', (response) => {
      const chunks: Buffer[] = [];
      // One extra byte shows that the response was truncated.
      let left = MAX_REPLY_BYTES + 1;
      response.on('data', (chunk: Buffer) => {
        if (left > 0) chunks.push(chunk.subarray(0, left));
        left -= chunk.length;
      });
      response.on('error', () => lose('ECONNRESET'));
      response.on('end', () => {
        const read = Buffer.concat(chunks);
        const body = read.subarray(0, MAX_REPLY_BYTES);
        const { statusCode: status = 0, headers } = response;
        const report = readReport(read, headers['content-type']);
        const answer = { kind: 'reply', status, location: headers.location, ...report } as const;
        end({ ...answer, elapsedMs: elapsedMs() }, { headers: toRecord(response.headersDistinct), body });
      });
    });
    write(sent, delivery).catch(fail);
  });
}

function toRecord(headers: NodeJS.Dict<string[]>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, values = []]) => [name, values.join(', ')]));
}

function begin(
  url: string,
  { method = 'POST', headers, body, signal, chunked = false }: DeliveryRequest,
): ClientRequest {
  const request = new URL(url).protocol === 'https:' ? requestHttps : requestHttp;
  const sized = chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length };
  const length = method === 'GET' ? {} : sized;
  return request(url, {
    // The endpoint could close a reused connection just as a request is sent.
    agent: false,
    method,
    headers: { ...headers, ...length },
    ...(signal && { signal }),
  });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'invalid request';
  return 'code' in error ? String(error.code) : error.name;
}

async function write(sent: ClientRequest, { body, cutAtBytes, pauseMs = 0 }: DeliveryRequest): Promise<void> {
  if (cutAtBytes !== undefined) {
    // Once the system has accepted these bytes, they arrive before the connection ends.
    await new Promise((resolve) => sent.write(body.subarray(0, cutAtBytes), resolve));
    sent.destroy();
    return;
  }
  if (pauseMs > 0) {
    const step = Math.ceil(body.length / PIECES);
    for (let at = 0; at < body.length; at += step) {
      sent.write(body.subarray(at, at + step));
      await wait(pauseMs);
    }
    sent.end();
    return;
  }
  sent.end(body);
}
