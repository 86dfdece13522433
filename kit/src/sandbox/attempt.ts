/** One attempt: an event is written, signed and sent to one endpoint, and what came of it is recorded. */
import { sign } from 'stablehooks';
import type { Clock } from './clock.js';
import type { Target } from './endpoints.js';
import type { SandboxEvent } from './event-log.js';
import type { FaultSource } from './faults.js';

/** What one attempt sent and what came back. */
export interface Attempt {
  readonly deliveryId: string;
  readonly eventId: string;
  readonly endpointId: string;
  /** Which attempt of the delivery, from 1; a duplicate has the number of the attempt that it doubles. */
  readonly number: number;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly request: {
    readonly method: 'POST';
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  };
  /** `null` when none came. Of the body the first 1,024 bytes. */
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  } | null;
  /** Why there is no response, or `null`. */
  readonly error: string | null;
  /** The faults that struck: `drop`, `duplicate`, `corruptSignature`, `reserialise`, `cut`. */
  readonly faults: readonly string[];
}

/** What an attempt is made of. */
interface AttemptPlan {
  readonly event: SandboxEvent;
  readonly target: Target;
  readonly deliveryId: string;
  readonly number: number;
  /** Faults that were decided before: `duplicate`. */
  readonly struck: readonly string[];
  readonly timeoutMs: number;
  /** Aborted here when the time is up, and elsewhere when the sandbox is reset or closed. */
  readonly giveUp: AbortController;
}

const ATTEMPT_FAULTS = ['drop', 'corruptSignature', 'reserialise', 'cut'] as const;
const KEPT_RESPONSE_BYTES = 1024;
const CUT_AFTER_MS = 20;

/** Makes one attempt. Never rejects: what went wrong is its `error`. */
export async function makeAttempt(
  plan: AttemptPlan,
  { clock, faults }: { readonly clock: Clock; readonly faults: FaultSource },
): Promise<Attempt> {
  const { event, target, deliveryId, number, struck, timeoutMs, giveUp } = plan;
  const key = `${deliveryId}:${number}:${struck.length}`;
  const mine = [...struck, ...ATTEMPT_FAULTS.filter((fault) => faults.strikes(fault, key))];

  const { id, type, created_at, payload } = event;
  const body = JSON.stringify({ id, type, created_at, payload });
  const bytes = new TextEncoder().encode(body);
  const sent = mine.includes('reserialise')
    ? JSON.stringify({ id, type, created_at, payload }, null, 1)
    : body;
  const headers: Record<string, string> = { 'content-type': 'application/json' };

  const startedAt = clock.now();
  let response: Attempt['response'] = null;
  let error: string | null = null;
  const late = new Error(`The endpoint did not answer within ${timeoutMs} ms.`);
  const cancel = clock.after(timeoutMs, () => giveUp.abort(late));
  const { signal } = giveUp;
  try {
    const signature = await sign(bytes, { secret: target.secret, encoding: target.encoding });
    headers[target.signatureHeader] = mine.includes('corruptSignature') ? corrupt(signature) : signature;
    if (mine.includes('drop')) throw new Error('The delivery was dropped on its way.');
    // Signing takes a turn, and what is given up in it must not arrive.
    signal.throwIfAborted();
    const content = mine.includes('cut') ? halfOf(new TextEncoder().encode(sent)) : sent;
    const init = {
      method: 'POST',
      headers,
      body: content,
      duplex: 'half',
      redirect: 'manual',
      signal,
    } as const;
    response = await untilAborted(exchange(new Request(target.url, init), target), signal);
  } catch (cause) {
    error = toText(signal.aborted ? signal.reason : cause);
  } finally {
    cancel();
  }
  return {
    ...{ deliveryId, eventId: id, endpointId: target.id, number },
    startedAt: new Date(startedAt).toISOString(),
    durationMs: clock.now() - startedAt,
    request: { method: 'POST', url: target.url, headers, body: sent },
    ...{ response, error, faults: mine },
  };
}

/** Sends the request and reads as much of the answer as is kept. */
async function exchange(request: Request, { fetch: send = fetch }: Target): Promise<Attempt['response']> {
  const { status, headers, body } = await send(request);
  return { status, headers: Object.fromEntries(headers), body: await readStart(body) };
}

async function readStart(body: ReadableStream<Uint8Array> | null): Promise<string> {
  if (body === null) return '';
  const decoder = new TextDecoder();
  let text = '';
  let left = KEPT_RESPONSE_BYTES;
  for await (const chunk of body) {
    text += decoder.decode(chunk.subarray(0, left), { stream: true });
    left -= chunk.length;
    if (left <= 0) break;
  }
  return text + decoder.decode();
}

/** A function in this process may not heed the signal: the attempt ends nevertheless. */
function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** A body that breaks off in the middle, as when a connection is cut. */
function halfOf(bytes: Uint8Array): ReadableStream<Uint8Array> {
  const cut = new Error('The connection was cut halfway through the body.');
  return new ReadableStream({
    start: (controller) => {
      controller.enqueue(bytes.slice(0, bytes.length >> 1));
    },
    // Real time: the first half has to be on the wire before the socket is destroyed.
    pull: async (controller) => {
      await new Promise((resolve) => setTimeout(resolve, CUT_AFTER_MS));
      controller.error(cut);
    },
  });
}

/** Another signature of the same form. */
function corrupt(signature: string): string {
  return (signature.startsWith('0') ? '1' : '0') + signature.slice(1);
}

/** The failure in words; `fetch` hides what happened in the cause. */
function toText(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  return cause instanceof Error
    ? cause.message || cause.name
    : 'The endpoint threw something that is not an error.';
}
