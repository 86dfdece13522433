import { StablehooksError } from '../core/errors.js';
import { POLL_NOTE } from '../core/ports.js';
import { timeLimit, toRuntime } from '../core/runtime.js';
import { health } from './health.js';
import { assertInbox, type HealthInbox, type HealthLimits, readLimits } from './options.js';

/** Two route handlers that return a `Response`. The responses contain no messages, ids or times. */
export interface HealthRoutes {
  /** The route for monitoring, such as `/healthz`. Returns the checks, with a 200 if all are healthy, otherwise a 503. */
  readonly health: () => Promise<Response>;
  /** The route for load balancers, such as `/readyz`. Returns 200 if the inbox can be read, otherwise 503. */
  readonly ready: () => Promise<Response>;
}

const TIMEOUT_MS = 5_000;

/**
 * Creates route handlers for monitoring an inbox. Don't restart a process because `health` returns 503: a restart fixes
 * neither dead events nor gaps.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `inbox` is not an inbox, or a limit is unknown or invalid.
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
