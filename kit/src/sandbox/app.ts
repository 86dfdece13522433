import { isIP } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import { methodNotAllowed } from 'hono/method-not-allowed';
import type { Wallet } from 'stablehooks/client';
import * as z from 'zod/mini';
import { isFromOtherSite, readHost } from '../other-sites.js';
import type { Clock } from './clock.js';
import { type EndpointInput, secretInput } from './endpoints.js';
import { LIST_ORDERS, type SandboxEvent } from './events.js';
import type { FaultSource } from './faults.js';
import { type Feed, streamFeed } from './feed.js';
import type { AcceptInput, RedeemInput, SendInput, TransferInput } from './movements.js';
import { serveOpenapi } from './openapi.js';
import { readJsonBody } from './read-json-body.js';
import type { SandboxOperations } from './sandbox.js';
import type { RequestHandler } from './server.js';
import {
  check,
  closedObject,
  jsonObject,
  milliseconds,
  nonEmptyString,
  oneOf,
  SandboxError,
} from './validation.js';
import type { LimitsInput, WalletInput } from './wallets.js';

interface AppParts {
  readonly sandbox: SandboxOperations;
  readonly clock: Clock;
  readonly faults: FaultSource;
  readonly feed: Feed;
  /** Counts the requests under `/v1`, starting at 1 again after each reset. */
  readonly nextRequest: () => number;
  /** When the token was last renewed, by the sandbox's clock. */
  readonly tokenRenewedAt: () => number;
}

interface AppOptions {
  readonly token: string;
  readonly maxBodyBytes: number;
  readonly maxLimit: number;
}

/** Empty unless the request arrived over a socket. */
interface Env {
  Bindings: Partial<HttpBindings>;
}

type ReadJson = <Claimed>(context: Context) => Promise<Claimed>;

export function createApp(parts: AppParts, options: AppOptions): RequestHandler {
  const app = new Hono<Env>();
  // These two routes come before the token check, because orchestrators have no token, and the document is public.
  app.get('/health', (context) => context.json({ status: 'ok' }));
  app.get('/openapi.json', serveOpenapi);
  app.use(async (context, next) => {
    const given = /^Bearer +(\S+) *$/i.exec(context.req.header('authorization') ?? '')?.[1];
    if (given === options.token) return next();
    return refuseToken('Send `Authorization: Bearer <token>` with the token of this sandbox.');
  });
  app.use(methodNotAllowed({ app, onMethodNotAllowed: (_, methods) => refuseMethod(methods) }));
  const readJson: ReadJson = (context) => readJsonBody(context.req.raw, options.maxBodyBytes);
  app.route('/v1', serviceRoutes(parts, readJson, options.maxLimit));
  app.route('/sandbox', controlRoutes(parts, readJson));
  app.notFound(() => {
    const message = 'There is no route at this path. See the documentation of the sandbox for its routes.';
    return toProblem(new SandboxError('ERR_SANDBOX_NOT_FOUND', message));
  });
  app.onError((error) => {
    if (error instanceof SandboxError) return toProblem(error);
    if (error instanceof ConnectionReset) throw error;
    console.error(error);
    return toProblem(new SandboxError('ERR_SANDBOX_FAILED', 'The sandbox failed. See the error in its log.'));
  });
  return (request, bindings) => app.fetch(request, bindings);
}

/** Any web site can know the default token. The host can be any IP address, because DNS rebinding needs a name. */
export function refuseOtherSites(handler: RequestHandler, names: readonly string[]): RequestHandler {
  const allowed = new Set(['localhost', ...names.map((name) => name.toLowerCase())]);
  return (request, bindings) => {
    const hostname = readHost(request).hostname.toLowerCase();
    const isAddress = isIP(hostname.replace(/^\[(.*)\]$/, '$1')) !== 0;
    if (!isAddress && !allowed.has(hostname)) {
      const message = `This sandbox does not accept requests for the host ${hostname}. To allow that name, pass --allow-host ${hostname}, or pass \`allowedHosts\` to sandbox.listen.`;
      return toProblem(new SandboxError('ERR_SANDBOX_HOST', message));
    }
    if (isFromOtherSite(request)) {
      const message =
        'This request comes from a web page. Call the sandbox from a server, not from a browser.';
      return toProblem(new SandboxError('ERR_SANDBOX_OTHER_SITE', message));
    }
    return handler(request, bindings);
  };
}

function serviceRoutes(parts: AppParts, readJson: ReadJson, maxLimit: number): Hono<Env> {
  const { sandbox, clock, faults, nextRequest, tokenRenewedAt } = parts;
  const routes = new Hono<Env>();

  routes.use(async (context, next) => {
    await next();
    // The header uses the same clock as the events, because a client compares the times of both.
    context.res.headers.set('date', new Date(clock.now() + faults.get().dateSkewMs).toUTCString());
  });
  routes.use(async (context, next) => {
    const key = `request:${nextRequest()}`;
    const { apiRetryAfterMs, apiSlowMs, tokenExpiryMs } = faults.get();
    if (tokenExpiryMs !== null && clock.now() - tokenRenewedAt() >= tokenExpiryMs) {
      return refuseToken('The token has expired. Renew it with `POST /sandbox/token/renew`.');
    }
    if (faults.occurs('apiSlow', key)) await clock.wait(apiSlowMs);
    if (faults.occurs('apiTooManyRequests', key)) {
      const problem = new SandboxError('ERR_SANDBOX_BUSY', 'Too many requests. Nothing was changed.');
      return toProblem(problem, { 'retry-after': String(Math.ceil(apiRetryAfterMs / 1000)) });
    }
    if (faults.occurs('apiServerError', key)) {
      return toProblem(new SandboxError('ERR_SANDBOX_FAILED', 'The service failed. Nothing was changed.'));
    }
    await next();
    if (faults.occurs('apiReset', key)) {
      context.res = resetConnection(context);
    } else if (faults.occurs('apiMalformed', key)) {
      const whole = await context.res.text();
      context.res = new Response(whole.slice(0, Math.ceil(whole.length / 2)), context.res);
    }
    return;
  });

  routes.post('/wallets', async (context) =>
    walletCreated(context, sandbox.wallets.create(await readJson<WalletInput>(context))),
  );

  routes.patch('/wallets/:id/limits', async (context) => {
    const input = await readJson<LimitsInput>(context);
    return context.json(sandbox.wallets.updateLimits(context.req.param('id'), input));
  });

  const limitMessage = `must be an integer from 1 to ${maxLimit}`;
  const serviceLimit = z.pipe(
    z.string().check(z.regex(/^\d{1,15}$/, limitMessage)),
    z.pipe(
      z.transform(Number),
      z.number().check(z.minimum(1, limitMessage), z.maximum(maxLimit, limitMessage)),
    ),
  );
  const query = z.object({ type: z.optional(nonEmptyString), limit: z._default(serviceLimit, 50) });
  routes.get('/webhooks/events', (context) => {
    return context.json(listWithFaults(parts, check(query, context.req.query())));
  });
  return routes;
}

function listWithFaults(
  { sandbox, clock, faults }: AppParts,
  { type, limit }: { readonly type?: string | undefined; readonly limit: number },
): readonly SandboxEvent[] {
  const { listOrder, listCap, listFilterAfterCap, listLagMs } = faults.get();
  const rows = Math.min(limit, listCap ?? limit);
  const listed = sandbox.events({
    type: listFilterAfterCap ? undefined : type,
    order: listOrder,
    limit: rows,
    until: listLagMs === 0 ? undefined : clock.now() - listLagMs,
  });
  return listed
    .filter((event) => type === undefined || event.type === type)
    .flatMap((event) => (faults.occurs('listDuplicate', event.id) ? [event, event] : [event]))
    .slice(0, rows)
    .map((event) =>
      faults.occurs('listWrongDelivered', event.id) ? { ...event, delivered: !event.delivered } : event,
    );
}

/** Stands in for a reset where there is no connection. The call then fails as `fetch` fails after a reset. */
class ConnectionReset extends TypeError {
  constructor() {
    super('fetch failed', { cause: Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }) });
  }
}

function resetConnection(context: Context<Env>): Response {
  const outgoing = context.env?.outgoing;
  if (outgoing === undefined) throw new ConnectionReset();
  if (outgoing.socket !== null && 'resetAndDestroy' in outgoing.socket) outgoing.socket.resetAndDestroy();
  else outgoing.destroy();
  // A new object, because `RESPONSE_ALREADY_SENT` is shared, and the middleware sets headers on its response.
  return new Response(null, RESPONSE_ALREADY_SENT);
}

/** The service documents the reason phrase but not the status code. 201 fits that phrase. */
function walletCreated(context: Context<Env>, wallet: Wallet): Response {
  const outgoing = context.env?.outgoing;
  if (outgoing !== undefined) outgoing.statusMessage = 'Wallet created';
  const headers = { 'content-type': 'application/json' };
  return new Response(JSON.stringify(wallet), { status: 201, statusText: 'Wallet created', headers });
}

const limit = z._default(
  z.coerce.number('must be an integer').check(z.int('must be an integer'), z.minimum(1, 'must be 1 or more')),
  50,
);
const listQuery = z.object({ limit });
const eventQuery = z.object({
  type: z.optional(nonEmptyString),
  limit,
  order: z.optional(oneOf(LIST_ORDERS)),
});
const deliveryQuery = z.object({
  event: z.optional(nonEmptyString),
  state: z.optional(oneOf(['pending', 'delivered', 'exhausted'])),
  limit,
});
const emitInput = closedObject({ type: nonEmptyString, payload: z.optional(jsonObject) });
const resendInput = closedObject({
  url: z.optional(nonEmptyString),
  body: z.optional(z.base64('must be base64')),
});
const advanceInput = closedObject({ ms: milliseconds });

function controlRoutes({ sandbox, feed }: AppParts, readJson: ReadJson): Hono<Env> {
  const routes = new Hono<Env>();
  const noContent = () => new Response(null, { status: 204 });
  const idOf = (context: Context) => context.req.param('id') ?? '';
  const clock = () => ({ mode: sandbox.clock.mode, now: new Date(sandbox.clock.now()).toISOString() });
  const get = (path: string, read: (id: string, query: Record<string, string>) => unknown) =>
    routes.get(path, (context) => context.json(read(idOf(context), context.req.query())));
  const create = <Input>(path: string, make: (input: Input, id: string) => unknown) =>
    routes.post(path, async (context) =>
      context.json(await make(await readJson(context), idOf(context)), 201),
    );
  const run = (path: string, work: () => void | Promise<void>) =>
    routes.post(path, async () => {
      await work();
      return noContent();
    });

  get('/wallets', () => sandbox.wallets.list());
  get('/wallets/:id', (id) => sandbox.wallets.get(id));
  create('/wallets/:id/sends', (input: SendInput, id) => sandbox.send(id, input));

  get('/movements', (_, query) => sandbox.movements(check(listQuery, query)));
  create('/accepts', (input: AcceptInput) => sandbox.accept(input));
  create('/transfers', (input: TransferInput) => sandbox.transfer(input));
  create('/redemptions', (input: RedeemInput) => sandbox.redeem(input));
  routes.post('/redemptions/:id/return', (context) => context.json(sandbox.returnRedemption(idOf(context))));

  get('/events', (_, query) => sandbox.events(check(eventQuery, query)));
  create('/events', (input) => {
    const { type, payload } = check(emitInput, input);
    return sandbox.emit(type, payload);
  });
  routes.post('/events/:id/redeliver', (context) => {
    sandbox.redeliver(idOf(context));
    return context.body(null, 202);
  });
  create('/deliveries/:id/resend', (input, id) => {
    const { url, body } = check(resendInput, input);
    return sandbox.resend(id, { url, body: body === undefined ? undefined : Buffer.from(body, 'base64') });
  });
  get('/deliveries', (_, query) => {
    const { event, state, limit } = check(deliveryQuery, query);
    return sandbox.deliveries({ eventId: event, state, limit });
  });
  get('/attempts', (_, query) => {
    const { event, limit } = check(deliveryQuery, query);
    return sandbox.attempts({ eventId: event, limit });
  });

  get('/endpoints', () => sandbox.endpoints.list());
  create('/endpoints', (input: EndpointInput) => sandbox.endpoints.add(input));
  routes.delete('/endpoints/:id', (context) => {
    sandbox.endpoints.remove(idOf(context));
    return noContent();
  });
  routes.post('/endpoints/:id/secret', async (context) => {
    const { secret } = check(secretInput, await readJson(context));
    return context.json(sandbox.endpoints.rotateSecret(idOf(context), secret));
  });

  get('/faults', () => sandbox.faults.get());
  routes.patch('/faults', async (context) => context.json(sandbox.faults.set(await readJson(context))));
  routes.delete('/faults', (context) => context.json(sandbox.faults.clear()));

  get('/clock', clock);
  routes.post('/clock/advance', async (context) => {
    await sandbox.clock.advance(check(advanceInput, await readJson(context)).ms);
    return context.json(clock());
  });
  run('/token/renew', () => sandbox.renewToken());
  run('/settled', () => sandbox.settled());
  run('/reset', () => sandbox.reset());
  routes.get('/stream', (context) => {
    // Hono handles HEAD like GET and drops the body, so the stream would never end.
    if (context.req.method === 'HEAD') return refuseMethod(['GET']);
    return streamFeed(feed);
  });
  return routes;
}

function refuseToken(message: string): Response {
  return toProblem(new SandboxError('ERR_SANDBOX_TOKEN', message), { 'www-authenticate': 'Bearer' });
}

function refuseMethod(accepted: readonly string[]): Response {
  const allow = accepted.join(', ');
  return toProblem(new SandboxError('ERR_SANDBOX_METHOD', `This path accepts only ${allow}.`), { allow });
}

function toProblem(error: SandboxError, headers: Readonly<Record<string, string>> = {}): Response {
  const { status, code, message, errors } = error;
  const body = JSON.stringify({ type: 'about:blank', status, code, detail: message, errors });
  return new Response(body, { status, headers: { 'content-type': 'application/problem+json', ...headers } });
}
