import { createHmac } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { isEventType } from 'stablehooks';

/** Counts effects by event id. */
export interface Ledger {
  apply(id: string): void;
  has(id: string): boolean;
  count(id: string): number;
}

export function createLedger(): Ledger {
  const counts = new Map<string, number>();
  return {
    apply: (id) => counts.set(id, (counts.get(id) ?? 0) + 1),
    has: (id) => counts.has(id),
    count: (id) => counts.get(id) ?? 0,
  };
}

/** The signature as the service makes it. */
export function hmac(secret: string, body: string | Uint8Array, encoding: 'hex' | 'base64' = 'hex'): string {
  return createHmac('sha256', secret).update(body).digest(encoding);
}

/** The signature in the request, or an empty string. */
export function signatureOf(request: IncomingMessage): string {
  return String(request.headers['x-service-signature'] ?? '');
}

const LIMIT_BYTES = 1_048_576;

/** Reads the body; `undefined` when it is too large. */
export async function readBody(
  request: IncomingMessage,
  limitBytes = LIMIT_BYTES,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= limitBytes) chunks.push(chunk);
  }
  return size > limitBytes ? undefined : Buffer.concat(chunks);
}

export function answer(
  response: ServerResponse,
  status: number,
  text = '',
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'text/plain', ...headers }).end(text);
}

/** The event of a delivery, as it was parsed. */
export interface ReceivedEvent {
  readonly id: string;
  readonly type: string;
  readonly created_at: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** The steps of a receiver; a wrong one replaces a right one. */
export interface Steps {
  /** Answers a request before anything else, and returns whether it did. @default answers nothing */
  readonly before: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** @default refuses every method but POST */
  readonly methods: readonly string[];
  /** @default 1 MiB */
  readonly limitBytes: number;
  readonly authentic: (body: Buffer, signature: string) => boolean;
  /** Answers what is not authentic. @default 401 */
  readonly refuse: (response: ServerResponse, body: Buffer) => void;
  /** The status that refuses an authentic event. @default accepts every event */
  readonly check: (event: ReceivedEvent) => number | undefined;
  /** Handles an authentic event; resolves when the reply can be sent. */
  readonly take: (id: string, ledger: Ledger) => void | Promise<void>;
  /** Takes an authentic event of a type that no release knows. @default stores it, without an effect */
  readonly takeUnknown: Steps['take'];
  /** Called with an event that is not authentic. @default nothing */
  readonly takeForged: Steps['take'];
  /** The status and the text for an event that was taken. @default 200 and `ok` */
  readonly reply: (id: string) => readonly [status: number, text: string];
}

/** Makes a receiver that is right, apart from the given steps. `GET /effects/{id}` answers how often an event took effect. */
export function createPlainReceiver(
  secret: string,
  steps: Partial<Steps> = {},
  ledger: Ledger = createLedger(),
): RequestListener {
  const {
    before = () => false,
    methods = ['POST'],
    limitBytes,
    authentic = verifyRaw(secret),
    refuse = (response) => answer(response, 401),
    check = () => undefined,
    take = takeOnce,
    takeUnknown = () => undefined,
    takeForged = () => undefined,
    reply = () => [200, 'ok'],
  } = steps;
  return async (request, response) => {
    const effects = /^\/effects\/(.+)$/.exec(request.url ?? '');
    if (effects) return answer(response, 200, String(ledger.count(decodeURIComponent(effects[1] ?? ''))));
    if (before(request, response)) return;
    if (!methods.includes(request.method ?? '')) return answer(response, 405);
    if (request.method === 'GET') return answer(response, 200, 'ok');
    try {
      const body = await readBody(request, limitBytes);
      if (body === undefined) return answer(response, 413);
      const isAuthentic = authentic(body, signatureOf(request));
      const event: ReceivedEvent = JSON.parse(body.toString());
      if (!isAuthentic) {
        await takeForged(event.id, ledger);
        return refuse(response, body);
      }
      const refusal = check(event);
      if (refusal !== undefined) return answer(response, refusal);
      await (isEventType(event.type) ? take : takeUnknown)(event.id, ledger);
      answer(response, ...reply(event.id));
    } catch {
      answer(response, 500);
    }
  };
}

/** The right step: verifies the raw bytes. */
export function verifyRaw(secret: string): Steps['authentic'] {
  return (body, signature) => signature === hmac(secret, body);
}

/** The right step: one effect per event. */
export function takeOnce(id: string, ledger: Ledger): void {
  if (!ledger.has(id)) ledger.apply(id);
}
