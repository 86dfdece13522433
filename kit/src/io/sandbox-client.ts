import { setTimeout as wait } from 'node:timers/promises';
import { answerOf } from '../sandbox/answer.js';
import type { Attempt, Delivery, Endpoint } from '../sandbox/index.js';
import type { EndpointAnswer } from './answer.js';
import { type CommandError, describeBody, unreachableError, usageError } from './errors.js';
import { toPlain } from './output.js';
import type { Settings } from './settings.js';

interface SandboxClientOptions {
  readonly signal: AbortSignal;
  /** The time limit for the first attempt of a delivery. */
  readonly timeoutMs: number;
}

/** No event has this many deliveries. Without a limit, the control API returns only 50. */
const ALL = 1_000_000;

const LOOK_MS = 20;

export async function connectSandbox(settings: Settings, { signal, timeoutMs }: SandboxClientOptions) {
  const request = await createRequest(settings, signal);
  const ask = async (method: 'GET' | 'POST', path: string, body?: unknown) =>
    readJson(await request(method, path, body), settings.baseUrl());
  const endpoints = await ask('GET', '/endpoints');
  if (!Array.isArray(endpoints)) throw notASandbox(settings.baseUrl());
  const listOf = (what: 'deliveries' | 'attempts', eventId: string) =>
    ask('GET', `/${what}?${new URLSearchParams({ event: eventId, limit: String(ALL) })}`);

  return {
    endpoints: endpoints as readonly Endpoint[],
    async emit(type: string, payload: unknown): Promise<string> {
      const event = await ask('POST', '/events', { type, payload });
      return (event as { readonly id: string }).id;
    },
    async redeliver(eventId: string): Promise<void> {
      await ask('POST', `/events/${encodeURIComponent(eventId)}/redeliver`);
    },
    deliveries: async (eventId: string) => (await listOf('deliveries', eventId)) as readonly Delivery[],
    /** Returns `silence` if no attempt has ended within the time limit. */
    async firstAnswer({ id, eventId }: Delivery): Promise<EndpointAnswer> {
      const until = performance.now() + timeoutMs;
      do {
        const attempts = (await listOf('attempts', eventId)) as readonly Attempt[];
        const first = attempts.find(({ deliveryId }) => deliveryId === id);
        if (first !== undefined) return answerOf(first);
        await wait(LOOK_MS, undefined, { signal });
      } while (performance.now() < until);
      return { kind: 'silence', elapsedMs: timeoutMs };
    },
  };
}

async function createRequest(settings: Settings, signal: AbortSignal) {
  const baseUrl = settings.baseUrl();
  const token = await settings.token();
  return async (method: 'GET' | 'POST', path: string, body?: unknown): Promise<Response> => {
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
        'The sandbox rejected the token. Set STABLEHOOKS_TOKEN to the token that the sandbox printed.',
      );
    // The service itself does not have `/sandbox`.
    if (response.status === 404 && path === '/endpoints') throw notASandbox(baseUrl);
    if (!response.ok) {
      const error = response.status < 500 && response.status !== 429 ? usageError : unreachableError;
      throw error(
        `The sandbox responded with ${response.status}: ${describeBody(await response.text()) || 'no body'}`,
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
    `${toPlain(baseUrl)} is not a sandbox, and only a sandbox sends events on request. Pass --to URL to send the event directly.`,
  );
}
