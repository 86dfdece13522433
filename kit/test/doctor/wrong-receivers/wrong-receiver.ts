import { createHmac } from 'node:crypto';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { isEventType } from 'stablehooks';

/** Makes a receiver with one fault. `GET /effects/{id}` answers how often an event took effect. */
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
export async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= LIMIT_BYTES) chunks.push(chunk);
  }
  return size > LIMIT_BYTES ? undefined : Buffer.concat(chunks);
}

export function answer(response: ServerResponse, status: number, text = ''): void {
  response.writeHead(status, { 'content-type': 'text/plain' }).end(text);
}

/** The steps of a receiver, of which one can be wrong. */
export interface Steps {
  readonly authentic: (body: Buffer, signature: string) => boolean;
  /** Handles an authentic event; resolves when the reply can be sent. */
  readonly take: (id: string, ledger: Ledger) => void | Promise<void>;
  /** Takes an authentic event of a type that no release knows. @default stores it, without an effect */
  readonly takeUnknown?: Steps['take'];
  /** What is done with an event that is not authentic. @default nothing */
  readonly takeForged?: Steps['take'];
  /** The status of what is not authentic. @default 401 */
  readonly refusal?: number;
}

/** Makes a receiver that is right, apart from the given steps. */
export function createPlainReceiver(
  { authentic, take, takeUnknown = nothing, takeForged = nothing, refusal = 401 }: Steps,
  ledger: Ledger = createLedger(),
): RequestListener {
  return async (request, response) => {
    const effects = /^\/effects\/(.+)$/.exec(request.url ?? '');
    if (effects) return answer(response, 200, String(ledger.count(decodeURIComponent(effects[1] ?? ''))));
    if (request.method !== 'POST') return answer(response, 405);
    try {
      const body = await readBody(request);
      if (body === undefined) return answer(response, 413);
      const isAuthentic = authentic(body, signatureOf(request));
      const { id, type } = JSON.parse(body.toString());
      if (!isAuthentic) {
        await takeForged(id, ledger);
        return answer(response, refusal);
      }
      await (isEventType(type) ? take : takeUnknown)(id, ledger);
      answer(response, 200, 'ok');
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

function nothing(): void {}
