import { answerOf } from '../sandbox/answer.js';
import type { Attempt, Delivery, Endpoint } from '../sandbox/index.js';
import type { EndpointAnswer } from './delivery.js';
import { type CommandError, describeBody, unreachableError, usageError } from './errors.js';
import { toPlain } from './output.js';
import type { Settings } from './settings.js';

/** Makes a running sandbox deliver events, over its control API. */
export interface SandboxClient {
  readonly endpoints: readonly Endpoint[];
  /** Fires an event, and returns its id. */
  emit(type: string, payload: unknown): Promise<string>;
  redeliver(eventId: string): Promise<void>;
  deliveries(eventId: string): Promise<readonly Delivery[]>;
  /**
   * Waits for the first attempt of a delivery; `silence` if none is made within the time limit.
   *
   * @throws {CommandError} exit 3 when the sandbox stops reporting.
   */
  firstAnswer(delivery: Delivery): Promise<EndpointAnswer>;
  /** Stops following the attempts. Until then the connection keeps the process running. */
  close(): void;
}

/** Options of {@link connectSandbox}. */
interface SandboxClientOptions {
  /** Aborts every request and every wait. */
  readonly signal: AbortSignal;
  /** How long to wait for the first attempt of a delivery, in ms. */
  readonly timeoutMs: number;
}

/** More deliveries of one event than there can be: the default of the control API is a page of 50. */
const ALL = 1_000_000;

/**
 * Connects to the sandbox at the base URL, and follows its attempts from now on.
 *
 * @throws {CommandError} exit 2 when the URL is not a sandbox or refuses the token, exit 3 when nothing answers.
 */
export async function connectSandbox(
  settings: Settings,
  { signal, timeoutMs }: SandboxClientOptions,
): Promise<SandboxClient> {
  const ended = new AbortController();
  const request = await createRequest(settings, AbortSignal.any([signal, ended.signal]));
  const ask = async (method: 'GET' | 'POST', path: string, body?: unknown) =>
    readJson(await request(method, path, body), settings.baseUrl());
  const endpoints = await ask('GET', '/endpoints');
  if (!Array.isArray(endpoints)) throw notASandbox(settings.baseUrl());
  const firstAttempt = await followAttempts(await request('GET', '/stream'), (cause) =>
    signal.aborted
      ? signal.reason
      : unreachableError(
          `${settings.baseUrl()} stopped reporting what it delivers, so the result is not known. See the output of the sandbox.`,
          { cause },
        ),
  );

  return {
    endpoints,
    async emit(type, payload) {
      const event = await ask('POST', '/events', { type, payload });
      return (event as { readonly id: string }).id;
    },
    async redeliver(eventId) {
      await ask('POST', `/events/${encodeURIComponent(eventId)}/redeliver`);
    },
    async deliveries(eventId) {
      const query = new URLSearchParams({ event: eventId, limit: String(ALL) });
      return (await ask('GET', `/deliveries?${query}`)) as readonly Delivery[];
    },
    firstAnswer: ({ id }) => firstAttempt(id, timeoutMs),
    close: () => ended.abort(),
  };
}

/** The maximum number of remembered attempts without a waiter: other clients of the sandbox cause attempts as well. */
const MAX_KNOWN = 10_000;

/** Waits for the answer to the first attempt of a delivery. Call it once per delivery. */
type FirstAttempt = (deliveryId: string, timeoutMs: number) => Promise<EndpointAnswer>;

/**
 * Reads the stream of the sandbox. Resolves once no later attempt can be missed.
 *
 * @param toError - creates the rejection for the end of the stream, which does not end by itself.
 */
async function followAttempts(
  response: Response,
  toError: (cause: unknown) => unknown,
): Promise<FirstAttempt> {
  interface Waiter {
    readonly resolve: (answer: EndpointAnswer) => void;
    readonly reject: (error: unknown) => void;
  }
  /** Attempts without a waiter yet: an attempt can be reported before the request that caused it is answered. */
  const known = new Map<string, EndpointAnswer>();
  const waiting = new Map<string, Waiter>();
  let end: { readonly error: unknown } | undefined;
  const entries = readEntries(response);
  // The first entry shows that the sandbox has begun to report.
  await entries.next();

  async function follow(): Promise<void> {
    for await (const { kind, data } of entries) {
      const [deliveryId, answer] = readEntry(kind, data) ?? [];
      if (deliveryId === undefined || answer === undefined) continue;
      const waiter = waiting.get(deliveryId);
      if (waiter !== undefined) waiter.resolve(answer);
      // A duplicate is not the first attempt.
      else if (!known.has(deliveryId)) known.set(deliveryId, answer);
      const [oldest] = known.keys();
      if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
    }
  }
  function stop(cause?: unknown): void {
    end = { error: toError(cause) };
    for (const { reject } of waiting.values()) reject(end.error);
  }
  follow().then(() => stop(), stop);

  return async (deliveryId, timeoutMs) => {
    const before = known.get(deliveryId);
    known.delete(deliveryId);
    if (before !== undefined) return before;
    if (end !== undefined) throw end.error;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise((resolve, reject) => {
        waiting.set(deliveryId, { resolve, reject });
        timer = setTimeout(() => resolve({ kind: 'silence', elapsedMs: timeoutMs }), timeoutMs);
      });
    } finally {
      clearTimeout(timer);
      waiting.delete(deliveryId);
    }
  };
}

/** An entry of the stream. The first one is the opening comment, without a kind. */
interface Entry {
  readonly kind: string;
  readonly data: unknown;
}

/** Parses server-sent events in the sandbox's form: one line of data each. */
async function* readEntries(response: Response): AsyncGenerator<Entry, void> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const blocks = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const [, data] = /^data: (.*)$/m.exec(block) ?? [];
      yield data === undefined ? { kind: '', data: undefined } : (JSON.parse(data) as Entry);
    }
  }
}

function readEntry(kind: string, data: unknown): readonly [string, EndpointAnswer] | undefined {
  if (kind === 'attempt.made') {
    const attempt = data as Attempt;
    return attempt.number === 1 ? [attempt.deliveryId, answerOf(attempt)] : undefined;
  }
  if (kind !== 'delivery.exhausted') return undefined;
  const { id, attempts } = data as Delivery;
  // A delivery ended without an attempt, because its endpoint was removed.
  return attempts === 0
    ? [id, { kind: 'unreachable', reason: 'the endpoint was removed', elapsedMs: 0 }]
    : undefined;
}

/** Sends a request to the control API. */
type ControlRequest = (method: 'GET' | 'POST', path: string, body?: unknown) => Promise<Response>;

async function createRequest(settings: Settings, signal: AbortSignal): Promise<ControlRequest> {
  const baseUrl = settings.baseUrl();
  const token = await settings.token();
  return async (method, path, body) => {
    const response = await fetch(`${baseUrl}/sandbox${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal,
    }).catch((cause) => {
      if (signal.aborted) throw cause;
      throw unreachableError(
        `${baseUrl} cannot be reached. Start \`stablehooks sandbox\`, or check --base-url.`,
        { cause },
      );
    });
    if (response.status === 401)
      throw usageError(
        'The sandbox refused the token. Set STABLEHOOKS_TOKEN to the token that the sandbox printed.',
      );
    // The service itself does not have /sandbox.
    if (response.status === 404 && (path === '/endpoints' || path === '/stream')) throw notASandbox(baseUrl);
    if (!response.ok) {
      const error = response.status < 500 && response.status !== 429 ? usageError : unreachableError;
      throw error(
        `The sandbox answered ${response.status}: ${describeBody(await response.text()) || 'no body'}`,
      );
    }
    return response;
  };
}

async function readJson(response: Response, baseUrl: string): Promise<unknown> {
  if (response.status === 204 || response.status === 202) return undefined;
  return response.json().catch((cause) => {
    throw cause instanceof SyntaxError ? notASandbox(baseUrl) : cause;
  });
}

function notASandbox(baseUrl: string): CommandError {
  return usageError(
    `${toPlain(baseUrl)} is not a sandbox, and only a sandbox fires events on request. Pass --to URL to send the event from here.`,
  );
}
