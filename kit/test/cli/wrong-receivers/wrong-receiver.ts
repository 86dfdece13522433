/** What the wrong receivers share: a body read right, an HMAC, and a ledger of effects that can be asked. */
import { createHmac } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';

/** Makes a receiver with one fault in it. `GET /effects/{id}` answers how often an event took effect. */
export type WrongReceiver = (secret: string) => RequestListener;

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

/** The signature as the service writes it. */
export function hmac(secret: string, body: string | Uint8Array, encoding: 'hex' | 'base64' = 'hex'): string {
  return createHmac('sha256', secret).update(body).digest(encoding);
}

/** The signature that came, or nothing. */
export function signatureOf(request: IncomingMessage): string {
  return String(request.headers['x-service-signature'] ?? '');
}

const LIMIT_BYTES = 1_048_576;

/** Reads the body; `undefined` when it is too large. */
export async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    size += piece.length;
    if (size <= LIMIT_BYTES) pieces.push(piece);
  }
  return size > LIMIT_BYTES ? undefined : Buffer.concat(pieces);
}

export function answer(response: ServerResponse, status: number, text = ''): void {
  response.writeHead(status, { 'content-type': 'text/plain' }).end(text);
}

/** What a step of a receiver answers with. */
export interface Steps {
  readonly authentic: (body: Buffer, signature: string) => boolean;
  /** Takes an event that is authentic; resolves when the reply may be sent. */
  readonly take: (id: string, ledger: Ledger) => void | Promise<void>;
}

/** A receiver that is right but for the steps that it is given. */
export function createPlainReceiver({ authentic, take }: Steps): RequestListener {
  const ledger = createLedger();
  return async (request, response) => {
    const effects = /^\/effects\/(.+)$/.exec(request.url ?? '');
    if (effects) return answer(response, 200, String(ledger.count(decodeURIComponent(effects[1] ?? ''))));
    if (request.method !== 'POST') return answer(response, 405);
    try {
      const body = await readBody(request);
      if (body === undefined) return answer(response, 413);
      if (!authentic(body, signatureOf(request))) return answer(response, 401);
      await take(JSON.parse(body.toString()).id, ledger);
      answer(response, 200, 'ok');
    } catch {
      answer(response, 500);
    }
  };
}

/** The step that does it right: verifies the raw bytes. */
export function verifyRaw(secret: string): Steps['authentic'] {
  return (body, signature) => signature === hmac(secret, body);
}

/** The step that does it right: one effect an event. */
export function takeOnce(id: string, ledger: Ledger): void {
  if (!ledger.has(id)) ledger.apply(id);
}
