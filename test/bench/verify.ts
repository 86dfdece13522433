/** Verify and parse one delivery: the bare floor, ours, and what people use today. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Webhooks } from '@octokit/webhooks';
import { verify as verifyOctokit } from '@octokit/webhooks-methods';
import { createReceiver, memoryInbox, parseEvent, type UnknownEvent, verifySignature } from 'stablehooks';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as SvixWebhook } from 'svix';
import { createDeliver } from './by-hand.js';
import { makeBody, makeDeliveries, type SignedDelivery } from './delivery.js';
import { sizeName } from './format.js';
import { type Candidate, type Measured, measure } from './measurement.js';
import { SECRET } from './secret.js';

export interface SizeResult {
  readonly sizeBytes: number;
  readonly measured: readonly Measured[];
}

/** How many different deliveries a round sends: fewer of the long ones, which take longer. */
const SIZES = [
  { sizeBytes: 300, calls: 4_000 },
  { sizeBytes: 2_000, calls: 2_000 },
  { sizeBytes: 64_000, calls: 100 },
  { sizeBytes: 1_000_000, calls: 9 },
] as const;

export async function measureVerify({ rounds }: { readonly rounds: number }): Promise<readonly SizeResult[]> {
  const results: SizeResult[] = [];
  for (const { sizeBytes, calls } of SIZES) {
    const deliveries = await makeDeliveries(calls, { sizeBytes });
    const part = `Verify and parse, ${sizeName(sizeBytes)}`;
    results.push({ sizeBytes, measured: await measure(candidatesFor(deliveries), { part, rounds, calls }) });
  }
  return results;
}

/** The memory inbox holds so many events. */
const CAPACITY = 20_000;
/** So many new events fill it, and evict most of them. */
const FILLING = 3 * CAPACITY;

/** The inbox is full for two thirds of a round, so the median call evicts an event. */
export async function measureFilling({ rounds }: { readonly rounds: number }): Promise<readonly Measured[]> {
  const deliveries = Array.from({ length: FILLING }, (_, index) => {
    const body = makeBody(`evt_${String(index).padStart(20, '0')}`, 300);
    return { body, signature: createHmac('sha256', SECRET).update(body).digest('hex') };
  });
  const at = (index: number) => deliveries[index] ?? raise(index);
  return measure(
    [
      { name: BARE, prepare: () => bare(at) },
      {
        name: 'by hand with the same promises, Map, async handler',
        prepare: () => deliverByHand(at, { capacity: CAPACITY }),
      },
      {
        name: 'stablehooks receive, memory inbox, async handler',
        prepare: () => receiveWith(async () => undefined, at, { capacity: CAPACITY }),
      },
    ],
    { part: 'A memory inbox that fills', rounds, calls: FILLING },
  );
}

const BARE = 'bare createHmac + timingSafeEqual + JSON.parse';

type At = (index: number) => Pick<SignedDelivery, 'body' | 'signature'>;

function raise(index: number): never {
  throw new RangeError(`Delivery ${index} does not exist.`);
}

function bare(at: At) {
  return (index: number) => {
    const { body, signature } = at(index);
    const mac = createHmac('sha256', SECRET).update(body).digest();
    must(timingSafeEqual(mac, Buffer.from(signature, 'hex')));
    return JSON.parse(body.toString());
  };
}

function deliverByHand(at: At, options?: { readonly capacity: number }) {
  const deliver = createDeliver(options);
  return async (index: number) => {
    const { body, signature } = at(index);
    must((await deliver(body, signature)).status === 200);
  };
}

function candidatesFor(deliveries: readonly SignedDelivery[]): readonly Candidate[] {
  const at = (index: number): SignedDelivery => deliveries[index] ?? raise(index);
  const stripe = new Stripe('sk_test_none');
  const octokit = new Webhooks({ secret: SECRET });
  const svix = new SvixWebhook(SECRET);
  const standard = new StandardWebhook(SECRET);

  return [
    { name: BARE, prepare: () => bare(at) },
    {
      name: 'stablehooks verifySignature + parseEvent',
      prepare: () => async (index) => {
        const { body, signature } = at(index);
        await verifySignature(body, signature, { secret: SECRET });
        return parseEvent(body);
      },
    },
    { name: 'stablehooks receive, memory inbox', prepare: () => receiveWith(() => undefined, at) },
    {
      name: 'stablehooks receive, memory inbox, async handler',
      prepare: () => receiveWith(async () => undefined, at),
    },
    { name: 'by hand with the same promises, Map, async handler', prepare: () => deliverByHand(at) },
    {
      name: 'of receive: the memory inbox, claim and complete',
      prepare: () => claimIn(memoryInbox(), deliveries),
    },
    {
      name: 'stripe constructEvent',
      prepare: () => (index) => stripe.webhooks.constructEvent(at(index).body, at(index).stripe, SECRET),
    },
    {
      name: '@octokit/webhooks-methods verify + JSON.parse',
      prepare: () => async (index) => {
        const text = at(index).body.toString();
        must(await verifyOctokit(SECRET, text, at(index).octokit));
        return JSON.parse(text);
      },
    },
    {
      name: '@octokit/webhooks verify + JSON.parse',
      prepare: () => async (index) => {
        const text = at(index).body.toString();
        must(await octokit.verify(text, at(index).octokit));
        return JSON.parse(text);
      },
    },
    { name: 'svix verify', prepare: () => (index) => svix.verify(at(index).body, at(index).svix) },
    {
      name: 'standardwebhooks verify',
      prepare: () => (index) => standard.verify(at(index).body, at(index).standard),
    },
  ];
}

/** The whole of a delivery but the socket: every event is new to the inbox and runs its handler. */
function receiveWith(
  handler: () => void | Promise<void>,
  at: At,
  options: { readonly capacity?: number } = {},
) {
  const receiver = createReceiver({
    secret: SECRET,
    handlers: { 'transfer.settled': handler },
    inbox: memoryInbox(options),
    logger: { warn: () => undefined, error: () => undefined },
  });
  return async (index: number) => {
    const { body, signature } = at(index);
    const outcome = await receiver.receive({
      method: 'POST',
      header: (name) => (name === 'X-SERVICE-Signature' ? signature : null),
      body: async () => body,
    });
    must(outcome.kind === 'handled');
  };
}

function claimIn(
  inbox: ReturnType<typeof memoryInbox>,
  deliveries: readonly SignedDelivery[],
): (index: number) => Promise<void> {
  const stored = deliveries.map(({ body }) => {
    const json = body.toString();
    return { event: JSON.parse(json) as UnknownEvent, json };
  });
  return async (index) => {
    const { event, json } = stored[index] ?? {};
    if (event === undefined) return raise(index);
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push', json, early: true });
    must(claim.state === 'claimed' && (await inbox.complete(claim.lease)));
  };
}

function must(held: boolean): void {
  if (!held) throw new Error('A candidate refused an honest delivery.');
}
