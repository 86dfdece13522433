import { ConfigError } from '../core/errors.js';
import { log } from '../core/log.js';
import { readOptions, required, rule, withMethods } from '../core/options.js';
import type { Logger } from '../core/ports.js';
import { sign, verifySignature } from '../core/signature.js';
import type { Poller } from './poller.js';
import { toProblem } from './problems.js';
import type { PollReport } from './report.js';

/** Options of {@link toCronRoute}. */
export interface CronRouteOptions {
  /** The secret that your scheduler sends as `Authorization: Bearer <secret>`. A function is called for each request. */
  readonly secret: string | (() => string);
  /** Receives a log line when a configuration mistake prevents a poll. @default console */
  readonly logger?: Logger | undefined;
}

const SECRET = rule(
  'a non-empty string without white space around it (check the environment variable)',
  (value) => typeof value === 'string' && value !== '' && value.trim() === value,
);

/**
 * Creates a route handler that polls once for each GET request that your scheduler sends.
 *
 * The route responds with:
 *
 * - 200 when the report is `proven` or `unconfirmed`, the report isn't `doubtful`, and no event failed. Even then, a
 *   gap from an earlier poll can be open.
 * - 409 when another process is polling.
 * - 401, without polling, when the request doesn't contain the secret.
 * - 500 otherwise, for example when a gap opened.
 *
 * The body of the response is the poll's report. If the inbox isn't durable, or if `secret` or `poller` throws, the
 * route doesn't poll. Instead, the route responds with 500 and an error code, and logs the reason.
 *
 * @param poller - a poller, or a function that creates it. The function is called when the first request with the
 * secret arrives, so that a build such as `next build` needs neither secrets nor connections.
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when the secret is missing or empty.
 *
 * @example
 * ```ts
 * export const { GET } = toCronRoute(poller, { secret: () => process.env['CRON_SECRET'] ?? '' });
 * ```
 */
export function toCronRoute(
  poller: Pick<Poller, 'pollOnce' | 'inbox'> | (() => Pick<Poller, 'pollOnce' | 'inbox'>),
  options: CronRouteOptions,
): { readonly GET: (request: Request) => Promise<Response> } {
  const where = 'toCronRoute';
  const { secret, logger } = readOptions(where, options, {
    secret: required(
      rule(`${SECRET.expected}, or a function`, (value) => isFunction(value) || SECRET.accepts(value)),
    ),
    logger: withMethods<Logger>('a logger, such as console or pino()', ['warn', 'error'], console),
  });
  let made: Pick<Poller, 'pollOnce' | 'inbox'> | undefined;
  let lastLine: string | undefined;

  async function GET(request: Request): Promise<Response> {
    // Outside of `try`, because `next build` renders this route, and this error tells Next not to prerender the route.
    const { headers } = request;
    try {
      // The scheme is case-insensitive (RFC 9110, 11.1).
      const given = /^bearer +(.*)$/i.exec(headers.get('authorization') ?? '')?.[1] ?? '';
      // Checked for each request, because a function can return an environment variable that is empty.
      const current = readOptions(
        where,
        { secret: isFunction(secret) ? secret() : secret },
        { secret: required(SECRET) },
      );
      if (!(await isSameString(given, current.secret))) {
        return new Response(null, { status: 401, headers: { 'www-authenticate': 'Bearer' } });
      }
      made ??= isFunction(poller) ? poller() : poller;
      if (!made.inbox.durable) throw new ConfigError(NOT_DURABLE);
      // The request's signal is not passed on, so the poll continues if the scheduler stops waiting.
      const report = await made.pollOnce();
      return toResponse(report, statusOf(report));
    } catch (error) {
      const { code, message } = toProblem(error, { code: 'ERR_CONFIG_INVALID' });
      const line = `the cron route did not poll. ${code}: ${message}`;
      // The same line is not logged again, so that nobody can fill the log by sending requests.
      if (line !== lastLine) log(logger, 'error', line);
      lastLine = line;
      return toResponse({ code }, 500);
    }
  }

  return { GET };
}

const NOT_DURABLE =
  "toCronRoute: the inbox of the poller's receiver is not durable, so every request would run the same events again. Pass that receiver the durable inbox that your app uses: sqliteInbox, postgresInbox, mysqlInbox or redisInbox.";

function toResponse(body: PollReport | { readonly code: string }, status: number): Response {
  return Response.json(body, { status, headers: { 'cache-control': 'no-store' } });
}

function statusOf(report: PollReport): number {
  if ((report.proven || report.unconfirmed) && report.failed === 0 && !report.doubtful) return 200;
  return report.problems.some(({ code }) => code === 'ERR_POLL_BUSY') ? 409 : 500;
}

/** Compares two strings in constant time, whatever their lengths, by comparing their HMACs under a random key. */
async function isSameString(given: string, expected: string): Promise<boolean> {
  const key = { secret: crypto.getRandomValues(new Uint8Array(32)) };
  const encoder = new TextEncoder();
  const signature = await sign(encoder.encode(expected), key);
  return verifySignature(encoder.encode(given), signature, key).then(
    () => true,
    () => false,
  );
}

function isFunction<Value>(value: Value | (() => Value)): value is () => Value {
  return typeof value === 'function';
}
