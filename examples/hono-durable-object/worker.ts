import { DurableObject } from 'cloudflare:workers';
import { Hono } from 'hono';
import { createReceiver } from 'stablehooks';
import { createPoller } from 'stablehooks/catch-up';
import { createClient } from 'stablehooks/client';
import { toFetchHandler } from 'stablehooks/fetch';
import { toHealthRoutes } from 'stablehooks/health';
import { durableObjectInbox } from 'stablehooks/inboxes/durable-object';
import { handlers, LEDGER } from './handlers.js';

interface Env {
  readonly HOOKS: DurableObjectNamespace<Hooks>;
  readonly STABLEHOOKS_SECRET: string;
  readonly STABLEHOOKS_BASE_URL: string;
  readonly STABLEHOOKS_TOKEN: string;
}

const EVERY_MS = 60_000;

/** The inbox and the ledger are in one object, so the ledger entry and its event commit together. */
export class Hooks extends DurableObject<Env> {
  readonly #inbox = durableObjectInbox(this.ctx.storage, { transactional: true });
  readonly #receiver = createReceiver({
    secret: this.env.STABLEHOOKS_SECRET,
    signature: { header: 'X-SERVICE-Signature', encoding: 'hex' },
    inbox: this.#inbox,
    handlers,
  });
  readonly #poller = createPoller({
    client: createClient({ baseUrl: this.env.STABLEHOOKS_BASE_URL, token: this.env.STABLEHOOKS_TOKEN }),
    receiver: this.#receiver,
  });
  readonly #app = new Hono()
    .post('/hooks', ({ req }) => toFetchHandler(this.#receiver)(req.raw, this.ctx))
    .get('/healthz', () => toHealthRoutes(this.#inbox, { requirePoll: true }).health());

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec(LEDGER);
  }

  override async fetch(request: Request): Promise<Response> {
    // The first request polls before it responds, and starts the alarms.
    if ((await this.ctx.storage.getAlarm()) === null) await this.alarm();
    return this.#app.fetch(request);
  }

  /** Every minute: finds events that push missed, and runs failed ones. Cloudflare calls this again if the object dies. */
  override async alarm(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + EVERY_MS);
    await this.#receiver.redrive(); // failed events do not wait for a list that does not respond
    await this.#poller.pollOnce({ signal: AbortSignal.timeout(10_000) });
  }
}

export default {
  /** One object for all deliveries, because only the inbox that has seen an event recognises its duplicates. */
  fetch: (request: Request, { HOOKS }: Env) => HOOKS.getByName('hooks').fetch(request),
};
