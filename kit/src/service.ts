/** The service, as the commands ask it: the client with the settings, and the sandbox behind the same address. */
import { type Client, createClient } from 'stablehooks/client';
import { type CommandError, unreachableError, usageError } from './failure.js';
import type { Settings } from './settings.js';
import { toPlain } from './table.js';

/** Fewer and shorter retries than the client's own: somebody waits at the keyboard. */
const RETRIES = { retries: 2, baseWaitMs: 200, maxWaitMs: 5_000 } as const;

/** Makes the client. */
export async function createService(settings: Settings): Promise<Client> {
  return createClient({ baseUrl: settings.baseUrl(), token: await settings.token(), ...RETRIES });
}

/** Asks the control API of a sandbox. */
type AskSandbox = (method: 'GET' | 'POST', path: string, body?: unknown) => Promise<unknown>;

/** Another thing than a sandbox answers there. */
export function notASandbox(baseUrl: string): CommandError {
  return usageError(
    `${baseUrl} is not a sandbox, and only a sandbox fires events on request. Pass --to URL to send one yourself.`,
  );
}

/** Makes it; only a sandbox has `/sandbox`, the service itself answers 404. */
export async function createControl(
  settings: Settings,
  { signal }: { readonly signal: AbortSignal },
): Promise<AskSandbox> {
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
      throw usageError('The sandbox refused the token. Set STABLEHOOKS_TOKEN to what it printed.');
    if (response.status === 404 && path === '/endpoints') throw notASandbox(baseUrl);
    if (!response.ok) {
      const error = response.status < 500 && response.status !== 429 ? usageError : unreachableError;
      const words = toPlain((await response.text()).trim()).slice(0, SHOWN_LENGTH);
      throw error(`The sandbox answered ${response.status}: ${words || 'nothing more'}`);
    }
    if (response.status === 204 || response.status === 202) return undefined;
    return response.json().catch((cause) => {
      throw cause instanceof SyntaxError ? notASandbox(baseUrl) : cause;
    });
  };
}

/** How much of an answer is shown. */
const SHOWN_LENGTH = 300;
