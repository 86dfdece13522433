/**
 * A receiver in a Cloudflare Durable Object, with a Worker in front. Each delivery is answered 202 once it is stored;
 * then its handler runs. The alarm runs failed events again, and events whose object ended before their handler did.
 */
import { DurableObject, type DurableObjectNamespace } from 'cloudflare:workers';
import { createReceiver } from 'stablehooks';
import { toFetchHandler } from 'stablehooks/fetch';
import { durableObjectInbox } from 'stablehooks/inboxes/durable-object';

interface Env {
  readonly HOOKS: DurableObjectNamespace;
  readonly STABLEHOOKS_SECRET: string;
  readonly LEDGER_URL: string;
}

const REDRIVE_MS = 5_000;

export class Hooks extends DurableObject<Env> {
  readonly #inbox = durableObjectInbox(this.ctx.storage);

  readonly #receiver = createReceiver({
    secret: this.env.STABLEHOOKS_SECRET,
    inbox: this.#inbox,
    answer: 'recorded',
    handlerTimeoutMs: 5_000,
    leaseMs: 10_000,
    handlers: {
      'transfer.settled': async ({ id, payload }, { signal }) => {
        // The id lets the ledger refuse a second entry: an object that is evicted here runs the event again.
        const body = JSON.stringify({ id, payload });
        const response = await fetch(this.env.LEDGER_URL, { method: 'POST', body, signal });
        if (!response.ok) throw new Error(`The ledger answered ${response.status}.`);
      },
    },
  });

  readonly #handler = toFetchHandler(this.#receiver);

  override async fetch(request: Request): Promise<Response> {
    const response = await this.#handler(request, this.ctx);
    // The answer leaves when the event and the alarm are on disk.
    if (response.status === 202) await this.#setAlarm();
    return response;
  }

  override async alarm(): Promise<void> {
    try {
      await this.#receiver.redrive();
    } finally {
      const open = (await this.#inbox.count()).filter(({ state }) => OPEN.has(state));
      if (open.some(({ count }) => count > 0)) await this.#setAlarm();
    }
  }

  async #setAlarm(): Promise<void> {
    const { storage } = this.ctx;
    // There is one alarm, and deliveries must not postpone it.
    if ((await storage.getAlarm()) === null) await storage.setAlarm(Date.now() + REDRIVE_MS);
  }
}

const OPEN: ReadonlySet<string> = new Set(['received', 'leased', 'failed']);

export default {
  /** One object for all deliveries, because only the inbox that has seen an event recognises its duplicates. */
  fetch: (request: Request, { HOOKS }: Env): Promise<Response> => HOOKS.getByName('hooks').fetch(request),
};
