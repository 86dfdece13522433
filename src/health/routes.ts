import { StablehooksError } from '../core/errors.js';
import { POLL_NOTE } from '../core/ports.js';
import { timeLimit, toRuntime } from '../core/runtime.js';
import { health } from './health.js';
import { assertInbox, type HealthInbox, type HealthLimits, readLimits } from './options.js';

/** Two route handlers for `Request` and `Response`. Their responses contain no message, id or time. */
export interface HealthRoutes {
  /** For monitoring, such as `/healthz`: 200 if every check is healthy, 503 otherwise, with the names of the checks. */
  readonly health: () => Promise<Response>;
  /** For a platform that routes requests, such as `/readyz`: 200 if the inbox can be read, 503 otherwise. */
  readonly ready: () => Promise<Response>;
}

const TIMEOUT_MS = 5_000;

/**
 * Creates the handlers. Do not restart a process because `health` answers 503: a restart fixes neither a dead event nor a
 * gap.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `inbox` is not an inbox, or a limit is unknown or makes no sense.
 *
 * @example
 * ```ts
 * const { health, ready } = toHealthRoutes(inbox);
 * app.get('/healthz', (c) => health());
 * ```
 */
export function toHealthRoutes(inbox: HealthInbox, limits: HealthLimits = {}): HealthRoutes {
  assertInbox('toHealthRoutes', inbox);
  const settings = readLimits('toHealthRoutes', limits);
  const runtime = toRuntime(settings.runtime);
  async function answer(ask: () => Promise<{ readonly healthy: boolean }>): Promise<Response> {
    const onTimeUp = () => ({ healthy: false, code: 'ERR_INBOX_FAILED' });
    let body: { readonly healthy: boolean; readonly code?: string };
    try {
      body = await timeLimit(ask(), TIMEOUT_MS, onTimeUp, runtime);
    } catch (error) {
      body = { healthy: false, code: error instanceof StablehooksError ? error.code : 'ERR_INBOX_FAILED' };
    }
    const headers = { 'cache-control': 'no-store' };
    return Response.json(body, { status: body.healthy ? 200 : 503, headers });
  }
  return {
    health: () =>
      answer(async () => {
        const { healthy, checks } = await health(inbox, settings);
        return {
          healthy,
          checks: checks.map(({ name, tone, healthy: isHealthy }) => ({ name, tone, healthy: isHealthy })),
        };
      }),
    ready: () =>
      answer(async () => {
        await inbox.readNote(POLL_NOTE);
        return { healthy: true };
      }),
  };
}
