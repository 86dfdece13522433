/** A service that ends some movements and not others, with a random list, lost pushes and killed processes, in virtual time. */
import { createReceiver, memoryInbox, type UnknownEvent } from 'stablehooks';
import { createPoller, type PollerClient } from 'stablehooks/catch-up';
import { findOwed, type OwedMovement } from 'stablehooks/reconcile';
import { createRandom } from '../catch-up/simulated-list.js';

export const LAG_MS = 300_000;
export const WITHIN_MS = 15 * 60_000;
const MINUTE = 60_000;
const START = Date.parse('2026-03-01T06:00:00Z');
const ORDERS = ['newest', 'newest', 'listed', 'oldest', 'shuffled'] as const;

interface Movement {
  readonly key: string;
  readonly since: Date;
  /** The event that ends it; none if the service owes it. */
  readonly event: UnknownEvent | undefined;
  readonly listedAt: number;
}

/** Runs an app for some hours, then looks for what is owed. */
export async function runMovements(seed: number, { isPlain = false } = {}) {
  const random = createRandom(seed);
  const pick = <Item>(items: readonly [Item, ...Item[]]): Item =>
    items[Math.floor(random() * items.length)] ?? items[0];
  const order = isPlain ? 'newest' : pick(ORDERS);
  const cap = isPlain
    ? Number.POSITIVE_INFINITY
    : pick([Number.POSITIVE_INFINITY, 50, 50 + Math.floor(random() * 100)]);
  const keptMs = isPlain ? Number.POSITIVE_INFINITY : pick([Number.POSITIVE_INFINITY, 3_600_000, 7_200_000]);
  const pollMs = isPlain ? 5 * MINUTE : pick([MINUTE, 10 * MINUTE, 60 * MINUTE]);
  const pushed = pick([0, 0.5, 0.95]);
  const hours = 1 + Math.floor(random() * 3);
  const end = START + hours * 60 * MINUTE;

  let now = START;
  const runtime = { now: () => now };
  const inbox = memoryInbox({ runtime });
  const movements: Movement[] = [];
  for (let index = 0; index < 100 + random() * 200; index += 1) {
    const since = START + Math.floor(random() * (end - START));
    const createdAt = since + Math.floor(random() * 2 * WITHIN_MS);
    const event = {
      id: `evt_${index}`,
      type: pick(['transfer.settled', 'transfer.failed']),
      created_at: new Date(createdAt).toISOString(),
      payload: { transfer_id: `trf_${index}` },
    };
    const late = random() < 0.2 ? Math.floor(random() * LAG_MS) : 0;
    const owed = random() < 0.2;
    movements.push({
      key: `trf_${index}`,
      since: new Date(since),
      event: owed ? undefined : event,
      listedAt: createdAt + late,
    });
  }
  const happened = () =>
    movements.flatMap(({ event, listedAt }) =>
      event !== undefined && listedAt <= now ? [{ event, listedAt }] : [],
    );
  const client: PollerClient = {
    events: {
      async listWithProblems({ type, limit }) {
        const kept = happened().filter(({ event }) => Date.parse(event.created_at) > now - keptMs);
        const place = ({ event, listedAt }: (typeof kept)[number]) =>
          order === 'shuffled'
            ? random()
            : order === 'listed'
              ? -listedAt
              : Date.parse(event.created_at) * (order === 'oldest' ? 1 : -1);
        const sorted = kept.map((each) => [place(each), each.event] as const).sort(([a], [b]) => a - b);
        const events = sorted
          .map(([, event]) => event)
          .filter((event) => type === undefined || event.type === type)
          .slice(0, Math.min(limit, cap));
        return { events, problems: [], size: events.length, servedAt: now };
      },
    },
  };
  const silent = { warn: () => undefined, error: () => undefined };
  const handle = () => {
    if (random() < 0.1) throw new Error('the bank is down');
  };
  const receiver = createReceiver({
    ...{ secret: 'whsec_movements', inbox, logger: silent, runtime, maxAttempts: 2 },
    handlers: { 'transfer.settled': handle, 'transfer.failed': handle },
  });
  const poller = createPoller({
    client,
    receiver,
    logger: silent,
    runtime,
    lagMs: LAG_MS,
    maxLimit: 400,
    since: new Date(START - 60 * MINUTE),
  });
  const arrived = new Set<string>();
  for (let at = START; at <= end; at += MINUTE) {
    now = at;
    for (const { event } of happened()) {
      if (arrived.has(event.id)) continue;
      arrived.add(event.id);
      if (random() > pushed) continue;
      // A process that is killed leaves a lease.
      if (random() < 0.1) await inbox.claim(event, { leaseMs: MINUTE, origin: 'push' });
      else await receiver.accept(event, 'push');
    }
    if ((at - START) % pollMs === 0 && random() < 0.9) await poller.pollOnce();
  }
  const judged = new Map<string, OwedMovement>();
  const result = await findOwed({
    ...{ inbox, client, runtime, lagMs: LAG_MS, maxLimit: 400, withinMs: WITHIN_MS },
    pending: () => movements,
    keyOf: (event) => event.payload['transfer_id'],
    terminal: ['transfer.settled', 'transfer.failed'],
    onMovement: (movement) => void judged.set(movement.key, movement),
  });
  const records = new Map<string, string>();
  for (const { id, state } of await inbox.list({ limit: 500 })) records.set(id, state);
  return { movements, judged, result, records, settledAt: now - LAG_MS, now };
}
