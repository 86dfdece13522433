/** A route for a scheduler: a GET with a bearer secret runs one poll and answers its report. */
import { ConfigError } from '../core/errors.js';
import { sign, verifySignature } from '../core/signature.js';
import type { Poller } from './poller.js';
import type { PollReport } from './report.js';

/** Options of {@link toCronRoute}. */
export interface CronRouteOptions {
  /** What the scheduler sends as `Authorization: Bearer <secret>`. */
  readonly secret: string;
}

/**
 * Makes a route handler that runs one poll: 200 when it proved that nothing is missed, 409 when another
 * process polls, 500 for anything else: a gap, or an event that failed. The body is the report. 401, without
 * a poll, when the secret is not the one.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the secret is empty: everyone would know it.
 *
 * @example
 * ```ts
 * export const { GET } = toCronRoute(poller, { secret: process.env['CRON_SECRET'] ?? '' });
 * ```
 */
export function toCronRoute(
  poller: Pick<Poller, 'pollOnce'>,
  { secret }: CronRouteOptions,
): { readonly GET: (request: Request) => Promise<Response> } {
  if (typeof secret !== 'string' || secret.trim() === '') {
    throw new ConfigError('toCronRoute needs `secret`. Is the environment variable that holds it set?');
  }
  const expected = `Bearer ${secret}`;

  async function answer(request: Request): Promise<Response> {
    if (!(await isSame(request.headers.get('authorization') ?? '', expected))) {
      return new Response(null, { status: 401, headers: { 'www-authenticate': 'Bearer' } });
    }
    // Not the request's signal: a scheduler that waits no longer should not keep events from being found.
    const report = await poller.pollOnce();
    return Response.json(report, { status: statusOf(report), headers: { 'cache-control': 'no-store' } });
  }

  return { GET: answer };
}

function statusOf({ proven, failed, problems }: PollReport): number {
  if (proven && failed === 0) return 200;
  return problems.some(({ code }) => code === 'ERR_POLL_BUSY') ? 409 : 500;
}

/** Compares the MACs of both under a key of the moment: in constant time, whatever their lengths. */
async function isSame(given: string, expected: string): Promise<boolean> {
  const key = { secret: crypto.getRandomValues(new Uint8Array(32)) };
  const encoder = new TextEncoder();
  const signature = await sign(encoder.encode(expected), key);
  return verifySignature(encoder.encode(given), signature, key).then(
    () => true,
    () => false,
  );
}
