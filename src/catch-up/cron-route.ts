import { readOptions, required, rule, withMethods } from '../core/options.js';
import { sign, verifySignature } from '../core/signature.js';
import type { Poller } from './poller.js';
import type { PollReport } from './report.js';

/** Options of {@link toCronRoute}. */
export interface CronRouteOptions {
  /** What the scheduler sends as `Authorization: Bearer <secret>`. */
  readonly secret: string;
}

/**
 * Creates a route handler that runs one poll, for a scheduler that sends a GET request.
 *
 * It answers 200 when the poll proved that no event is missing and none failed, 409 when another process polls,
 * 500 for anything else, such as a gap or an event that failed. The body is the report. It answers 401, without
 * a poll, when the request does not contain the secret.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when `poller` is not a poller, or the secret is missing or empty.
 *
 * @example
 * ```ts
 * export const { GET } = toCronRoute(poller, { secret: process.env['CRON_SECRET'] ?? '' });
 * ```
 */
export function toCronRoute(
  poller: Pick<Poller, 'pollOnce'>,
  options: CronRouteOptions,
): { readonly GET: (request: Request) => Promise<Response> } {
  const pollerRule = withMethods('a poller, which createPoller makes', ['pollOnce']);
  readOptions('toCronRoute', { poller }, { poller: required(pollerRule) });
  const { secret } = readOptions('toCronRoute', options, {
    secret: required(
      rule(
        'a string that is not empty: check the environment variable that it comes from',
        (value) => typeof value === 'string' && value.trim() !== '',
      ),
    ),
  });

  async function GET(request: Request): Promise<Response> {
    const authorization = request.headers.get('authorization') ?? '';
    if (!(await isSameString(authorization, `Bearer ${secret}`))) {
      return new Response(null, { status: 401, headers: { 'www-authenticate': 'Bearer' } });
    }
    // Without the request's signal: the poll continues when the scheduler stops waiting.
    const report = await poller.pollOnce();
    return Response.json(report, { status: statusOf(report), headers: { 'cache-control': 'no-store' } });
  }

  return { GET };
}

function statusOf({ proven, failed, problems }: PollReport): number {
  if (proven && failed === 0) return 200;
  return problems.some(({ code }) => code === 'ERR_POLL_BUSY') ? 409 : 500;
}

/** Compares the HMACs of both under a random key: in constant time, whatever their lengths. */
async function isSameString(given: string, expected: string): Promise<boolean> {
  const key = { secret: crypto.getRandomValues(new Uint8Array(32)) };
  const encoder = new TextEncoder();
  const signature = await sign(encoder.encode(expected), key);
  return verifySignature(encoder.encode(given), signature, key).then(
    () => true,
    () => false,
  );
}
