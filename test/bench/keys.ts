/** What ordering keys cost: claims with a key of their own against claims without, and the events of one key in turn. */
import { createReceiver, type UnknownEvent } from 'stablehooks';
import type { Inbox } from 'stablehooks/conformance';
import { exampleEvent } from 'stablehooks/testing';
import { median, perSecond } from './measurement.js';
import { SECRET } from './secret.js';
import { CONNECTIONS, STORES, type StoreName } from './stores.js';

/** What one store managed. */
export interface KeysResult {
  readonly store: StoreName;
  /** Events claimed and completed per second: medians over the rounds. */
  readonly withoutKeys: number;
  readonly withKeys: number;
  /** Of `withoutKeys`, in the same round: the median over the rounds. */
  readonly ratio: number;
  /** How long an event of one hot key took in a redrive, in ms: while most of its events still waited, and at the end. */
  readonly firstMs: number;
  readonly lastMs: number;
}

export interface KeysCounts {
  readonly rounds: number;
  /** How many events a round claims; of the memory inbox ten times as many. */
  readonly events: number;
  /** How many events have the hot key. */
  readonly hot: number;
}

export async function measureKeys(counts: KeysCounts): Promise<readonly KeysResult[]> {
  const results: KeysResult[] = [];
  for (const [name, open] of Object.entries(STORES)) {
    const store = await open();
    try {
      const events = name === 'memory' ? counts.events * 10 : counts.events;
      const compared = await compare(store.inbox, { ...counts, events });
      results.push({ store: name as StoreName, ...compared, ...(await drain(store.inbox, counts.hot)) });
    } finally {
      await store.close();
    }
  }
  return results;
}

async function compare(
  inbox: Omit<Inbox, 'transaction'>,
  { rounds, events }: Pick<KeysCounts, 'rounds' | 'events'>,
): Promise<Pick<KeysResult, 'withoutKeys' | 'withKeys' | 'ratio'>> {
  const run = async (event: UnknownEvent, key?: string) => {
    const claim = await inbox.claim(event, { leaseMs: 60_000, origin: 'push', key });
    if (claim.state !== 'claimed') throw new Error(`A new event is ${claim.state}.`);
    await inbox.complete(claim.lease);
  };
  const ways = {
    without: (event: UnknownEvent) => run(event),
    with: (event: UnknownEvent) => run(event, event.id),
  };
  const measured: { readonly without: number; readonly with: number }[] = [];
  // In turns, so that whatever slows the machine down slows both; the first round warms up.
  for (let round = 0; round <= rounds; round++) {
    const found = { without: 0, with: 0 };
    const order = round % 2 === 0 ? (['without', 'with'] as const) : (['with', 'without'] as const);
    for (const way of order) found[way] = await perSecond(ways[way], { events, lanes: CONNECTIONS });
    if (round > 0) measured.push(found);
  }
  return {
    withoutKeys: median(measured.map(({ without }) => without)),
    withKeys: median(measured.map((found) => found.with)),
    ratio: median(measured.map((found) => found.with / found.without)),
  };
}

/** Redrives events that all have the same key. */
async function drain(
  inbox: Omit<Inbox, 'transaction'>,
  hot: number,
): Promise<Pick<KeysResult, 'firstMs' | 'lastMs'>> {
  const endedAt: number[] = [];
  const receiver = createReceiver({
    secret: SECRET,
    inbox,
    orderingKey: () => 'hot',
    logger: { warn: () => undefined, error: () => undefined },
    handlers: { 'transfer.settled': async () => void endedAt.push(performance.now()) },
  });
  const events = Array.from({ length: hot }, (_, index) =>
    exampleEvent('transfer.settled', { created_at: new Date(1_750_000_000_000 + index).toISOString() }),
  );
  for (let from = 0; from < hot; from += 500) {
    await receiver.record(events.slice(from, from + 500), { dueInMs: 0, origin: 'pull' });
  }
  // A redrive takes no event after its lease.
  while (endedAt.length < hot) {
    const { handled } = await receiver.redrive();
    if (handled === 0) throw new Error(`${hot - endedAt.length} events of the hot key are not due.`);
  }
  await receiver.close();
  const quarter = Math.floor(hot / 4);
  const msPerEvent = (from: number, to: number) => ((endedAt[to] ?? 0) - (endedAt[from] ?? 0)) / (to - from);
  return { firstMs: msPerEvent(0, quarter), lastMs: msPerEvent(hot - 1 - quarter, hot - 1) };
}
