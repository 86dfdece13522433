/** One delivery over HTTP, made as the service makes it, and how it was answered. */
import { type ClientRequest, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { setTimeout as wait } from 'node:timers/promises';

/** What is sent. */
export interface Delivery {
  /** @default 'POST' */
  readonly method?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** How long to wait for the answer, in ms. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** How many of the body's bytes are sent before the connection is cut. @default all, and it is not cut */
  readonly cutAtBytes?: number;
  /** Sends the body in pieces, with a pause of so many ms between them. @default 0, in one piece */
  readonly pauseMs?: number;
}

/**
 * How it was answered.
 *
 * - `reply`: with a status; `outcome` and `code` are those of a stablehooks receiver's reply.
 * - `silence`: not at all within the time.
 * - `unreachable`: there was no connection, or it broke; `reason` is the system's code.
 */
export type Answer = { readonly elapsedMs: number } & (
  | {
      readonly kind: 'reply';
      readonly status: number;
      readonly outcome: string | undefined;
      readonly code: string | undefined;
    }
  | { readonly kind: 'silence' }
  | { readonly kind: 'unreachable'; readonly reason: string }
);

/** In how many pieces a slow body is sent. */
const PIECES = 3;

/** More of a reply is not read. */
const REPLY_LIMIT_BYTES = 65_536;

/**
 * Delivers. It never rejects, and follows no redirect: the service is not known to. The text of the reply stands
 * beside the answer, because answers are kept by the thousand.
 */
export async function deliver(
  url: string,
  delivery: Delivery,
): Promise<{ readonly answer: Answer; readonly text: string }> {
  const start = performance.now();
  const { text = '', ...ending } = await exchange(url, delivery);
  const elapsedMs = Math.round(performance.now() - start);
  return { answer: { ...ending, elapsedMs } as Answer, text };
}

type Ending = (Answer extends infer One ? (One extends Answer ? Omit<One, 'elapsedMs'> : never) : never) & {
  readonly text?: string;
};

function exchange(url: string, delivery: Delivery): Promise<Ending> {
  let sent: ClientRequest;
  try {
    sent = begin(url, delivery);
  } catch (error) {
    return Promise.resolve({ kind: 'unreachable', reason: reasonOf(error) });
  }
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ kind: 'silence' });
      sent.destroy();
    }, delivery.timeoutMs);
    const end = (ending: Ending) => {
      clearTimeout(timer);
      resolve(ending);
    };
    const fail = (error: unknown) => end({ kind: 'unreachable', reason: reasonOf(error) });
    sent.on('error', fail);
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece: string) => {
        if (text.length < REPLY_LIMIT_BYTES) text += piece;
      });
      response.on('error', () => end({ kind: 'unreachable', reason: 'ECONNRESET' }));
      response.on('end', () =>
        end({ kind: 'reply', status: response.statusCode ?? 0, text, ...readOutcome(text) }),
      );
    });
    write(sent, delivery).catch(fail);
  });
}

/** @throws what Node says of a header or a URL that no request can have. */
function begin(url: string, { method = 'POST', headers, body, signal }: Delivery): ClientRequest {
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  const length = method === 'GET' ? {} : { 'content-length': body.length };
  return request(url, {
    // A connection of its own: one that is kept can be closed by the other side at the moment of its reuse.
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

async function write(sent: ClientRequest, { body, cutAtBytes, pauseMs = 0 }: Delivery): Promise<void> {
  if (cutAtBytes !== undefined) {
    // Once the bytes are with the system they arrive before the connection ends.
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

/** What a stablehooks receiver says of itself in its reply; nothing for any other. */
export function readOutcome(text: string): {
  readonly outcome: string | undefined;
  readonly code: string | undefined;
} {
  try {
    const { outcome, code } = JSON.parse(text) ?? {};
    return {
      outcome: typeof outcome === 'string' ? outcome : undefined,
      code: typeof code === 'string' ? code : undefined,
    };
  } catch {
    return { outcome: undefined, code: undefined };
  }
}

/** Whether the answer is a 2xx: the only thing that means delivered. */
export function isDelivered(answer: Answer): boolean {
  const status = statusOf(answer);
  return status >= 200 && status < 300;
}

/** The status of a reply; 0 where there is none. */
export function statusOf(answer: Answer): number {
  return answer.kind === 'reply' ? answer.status : 0;
}

/** What a stablehooks receiver says became of the event; `undefined` from any other. */
export function outcomeOf(answer: Answer): string | undefined {
  return answer.kind === 'reply' ? answer.outcome : undefined;
}

/** The answer in a few words: `200 handled`, `401 ERR_SIGNATURE_MISMATCH`, `no answer`, `ECONNREFUSED`. */
export function describeAnswer(answer: Answer): string {
  if (answer.kind === 'silence') return `no answer in ${answer.elapsedMs} ms`;
  if (answer.kind === 'unreachable') return `no connection (${answer.reason})`;
  return [answer.status, answer.code ?? answer.outcome].filter(Boolean).join(' ');
}
