/** The three endpoints of `service.md` under `/v1`, and the faults that can befall them. */
import { type Context, Hono } from 'hono';
import * as z from 'zod/mini';
import type { SandboxEvent } from './event-log.js';
import type { FaultSource } from './faults.js';
import { text } from './fields.js';
import type { ListRequest } from './listing.js';
import { check, SandboxError, toProblem } from './problem.js';
import type { ReadJson } from './request-body.js';
import type { Env } from './server.js';
import type { LimitsInput, Wallet, WalletInput } from './wallets.js';

/** What the endpoints do, whoever asks. */
export interface Service {
  createWallet(input: WalletInput): Wallet;
  updateLimits(id: string, input: LimitsInput): Wallet;
  listEvents(request: ListRequest): readonly SandboxEvent[];
  /** The sandbox's clock, epoch ms. */
  now(): number;
  /** Resolves after so much of the sandbox's time. */
  wait(ms: number): Promise<void>;
  /** Numbers the requests, from 1 after each reset. */
  nextRequest(): number;
}

export function serviceRoutes(
  service: Service,
  options: { readonly faults: FaultSource; readonly maxLimit: number; readonly readJson: ReadJson },
): Hono<Env> {
  const { faults, maxLimit, readJson } = options;
  const routes = new Hono<Env>();

  routes.use(async (context, next) => {
    const key = `request:${service.nextRequest()}`;
    const { apiRetryAfterMs, apiSlowMs } = faults.get();
    if (faults.strikes('apiSlow', key)) await service.wait(apiSlowMs);
    if (faults.strikes('apiTooManyRequests', key)) {
      const problem = new SandboxError('ERR_SANDBOX_BUSY', 'Nothing was changed: too many requests.');
      return toProblem(problem, { 'retry-after': String(Math.ceil(apiRetryAfterMs / 1000)) });
    }
    if (faults.strikes('apiServerError', key)) {
      return toProblem(new SandboxError('ERR_SANDBOX_FAILED', 'Nothing was changed: the service failed.'));
    }
    await next();
    if (!faults.strikes('apiMalformed', key)) return;
    const whole = await context.res.text();
    context.res = new Response(whole.slice(0, Math.ceil(whole.length / 2)), context.res);
    return;
  });

  routes.post('/wallets', async (context) => {
    const wallet = service.createWallet(await readJson<WalletInput>(context));
    return created(context, wallet);
  });

  routes.patch('/wallets/:id/limits', async (context) =>
    context.json(service.updateLimits(context.req.param('id'), await readJson<LimitsInput>(context))),
  );

  const query = z.object({
    type: z.optional(text),
    limit: z._default(
      z.pipe(
        z.string().check(z.regex(/^\d{1,15}$/, `must be a whole number from 1 to ${maxLimit}`)),
        z.pipe(
          z.transform(Number),
          z
            .number()
            .check(
              z.minimum(1, `must be a whole number from 1 to ${maxLimit}`),
              z.maximum(maxLimit, `must be a whole number from 1 to ${maxLimit}`),
            ),
        ),
      ),
      // `service.md`: default 50.
      50,
    ),
  });
  // By the clock that dates the events: a client that compares the two must not be misled by a manual one.
  routes.get('/webhooks/events', (context) =>
    context.json(service.listEvents(check(query, context.req.query())), 200, {
      date: new Date(service.now()).toUTCString(),
    }),
  );
  return routes;
}

/** 201, as `service.md` gives no number, with the words that it does give as the reason phrase. */
function created(context: Context<Env>, wallet: Wallet): Response {
  const outgoing = context.env?.outgoing;
  if (outgoing !== undefined) outgoing.statusMessage = 'Wallet created';
  const headers = { 'content-type': 'application/json' };
  return new Response(JSON.stringify(wallet), { status: 201, statusText: 'Wallet created', headers });
}
