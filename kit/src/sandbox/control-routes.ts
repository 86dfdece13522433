/** The control API under `/sandbox`: each route is one operation of the sandbox, and adds nothing to it. */
import { type Context, Hono } from 'hono';
import * as z from 'zod/mini';
import type { EndpointInput } from './endpoints.js';
import { LIST_ORDERS } from './event-log.js';
import { streamFeed } from './event-stream.js';
import type { Faults } from './faults.js';
import type { Feed } from './feed.js';
import { milliseconds, oneOf, secret, text } from './fields.js';
import type { AcceptInput, RedeemInput, SendInput, TransferInput } from './movement-inputs.js';
import { check } from './problem.js';
import type { ReadJson } from './request-body.js';
import type { SandboxOperations } from './sandbox.js';
import type { Env } from './server.js';

const limit = z._default(
  z.coerce
    .number('must be a whole number')
    .check(z.int('must be a whole number'), z.minimum(1, 'must be 1 or more')),
  50,
);
const eventQuery = z.object({ type: z.optional(text), limit, order: z.optional(oneOf(LIST_ORDERS)) });
const deliveryQuery = z.object({
  event: z.optional(text),
  state: z.optional(oneOf(['pending', 'delivered', 'exhausted'])),
  limit,
});
const firing = z.strictObject({ type: text, payload: z.optional(z.record(z.string(), z.unknown())) });
const advance = z.strictObject({ ms: milliseconds });
const rotation = z.strictObject({ secret });

export function controlRoutes(
  sandbox: SandboxOperations,
  { feed, readJson }: { readonly feed: Feed; readonly readJson: ReadJson },
): Hono<Env> {
  const routes = new Hono<Env>();
  const done = () => new Response(null, { status: 204 });
  const clock = (context: Context) =>
    context.json({ mode: sandbox.clock.mode, now: new Date(sandbox.clock.now()).toISOString() });

  routes.get('/wallets', (context) => context.json(sandbox.wallets.list()));
  routes.get('/wallets/:id', (context) => context.json(sandbox.wallets.get(context.req.param('id'))));
  routes.post('/wallets/:id/sends', async (context) =>
    context.json(sandbox.send(context.req.param('id'), await readJson<SendInput>(context)), 201),
  );

  routes.get('/movements', (context) => context.json(sandbox.movements({ limit: toLimit(context) })));
  routes.post('/accepts', async (context) =>
    context.json(sandbox.accept(await readJson<AcceptInput>(context)), 201),
  );
  routes.post('/transfers', async (context) =>
    context.json(sandbox.transfer(await readJson<TransferInput>(context)), 201),
  );
  routes.post('/redemptions', async (context) =>
    context.json(sandbox.redeem(await readJson<RedeemInput>(context)), 201),
  );
  routes.post('/redemptions/:id/return', (context) =>
    context.json(sandbox.returnRedemption(context.req.param('id'))),
  );

  routes.get('/events', (context) => context.json(sandbox.events(check(eventQuery, context.req.query()))));
  routes.post('/events', async (context) => {
    const { type, payload } = check(firing, await readJson<unknown>(context));
    return context.json(sandbox.emit(type, payload), 201);
  });
  routes.post('/events/:id/redeliver', (context) => {
    sandbox.redeliver(context.req.param('id'));
    return context.body(null, 202);
  });
  routes.get('/deliveries', (context) => {
    const { event, state, limit } = check(deliveryQuery, context.req.query());
    return context.json(sandbox.deliveries({ eventId: event, state, limit }));
  });
  routes.get('/attempts', (context) => {
    const { event, limit } = check(deliveryQuery, context.req.query());
    return context.json(sandbox.attempts({ eventId: event, limit }));
  });

  routes.get('/endpoints', (context) => context.json(sandbox.endpoints.list()));
  routes.post('/endpoints', async (context) =>
    context.json(sandbox.endpoints.add(await readJson<EndpointInput>(context)), 201),
  );
  routes.delete('/endpoints/:id', (context) => {
    sandbox.endpoints.remove(context.req.param('id'));
    return done();
  });
  routes.post('/endpoints/:id/secret', async (context) => {
    const { secret } = check(rotation, await readJson<unknown>(context));
    return context.json(sandbox.endpoints.rotateSecret(context.req.param('id'), secret));
  });

  routes.get('/faults', (context) => context.json(sandbox.faults.get()));
  routes.patch('/faults', async (context) =>
    context.json(sandbox.faults.set(await readJson<Partial<Faults>>(context))),
  );
  routes.delete('/faults', (context) => context.json(sandbox.faults.clear()));

  routes.get('/clock', clock);
  routes.post('/clock/advance', async (context) => {
    await sandbox.clock.advance(check(advance, await readJson<unknown>(context)).ms);
    return clock(context);
  });
  routes.post('/settled', async () => {
    await sandbox.settled();
    return done();
  });
  routes.post('/reset', () => {
    sandbox.reset();
    return done();
  });
  routes.get('/stream', () => streamFeed(feed));
  return routes;
}

function toLimit(context: Context): number {
  return check(z.object({ limit }), context.req.query()).limit;
}
