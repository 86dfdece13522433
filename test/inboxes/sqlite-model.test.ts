/** Whatever is asked in whatever order, the SQLite inbox answers as the memory inbox does, records included. */
import fc from 'fast-check';
import Database from 'libsql';
import type { UnknownEvent } from 'stablehooks';
import { memoryInbox } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { expect, test } from 'vitest';

type Under = ReturnType<typeof memoryInbox>;
type Answer = Awaited<ReturnType<Under['claim']>>;

/** One inbox in its world: the clock that both share, and the leases that it gave, whose tokens are its own. */
interface World {
  readonly inbox: Under;
  readonly clock: { ms: number };
  readonly leases: Extract<Answer, { state: 'claimed' }>['lease'][];
}

/** What is asked; the answer must be plain data that two right inboxes have in common. */
type Command = (world: World) => Promise<unknown>;

const STATES = ['received', 'leased', 'failed', 'done', 'dead', 'parked'] as const;
const TYPES = ['transfer.settled', 'mint.completed'];
const events: readonly UnknownEvent[] = Array.from({ length: 6 }, (_, index) => ({
  id: `evt_${index}`,
  type: TYPES[index % 2] ?? '',
  created_at: '2026-01-02T03:04:05Z',
  payload: { index },
}));

const anyEvent = fc.constantFrom(...events);
const ms = fc.constantFrom(0, 10, 20, 40);
const origin = fc.constantFrom('push', 'pull', 'queue', 'redrive');
const holder = fc.constantFrom('a', 'b');
const pick = fc.nat(30);

const commands: fc.Arbitrary<Command> = fc.oneof(
  fc.tuple(anyEvent, fc.record({ leaseMs: ms, origin })).map<Command>(([event, options]) => async (world) => {
    const claim = await world.inbox.claim(event, options);
    if (claim.state !== 'claimed') return claim;
    world.leases.push(claim.lease);
    return { id: claim.lease.id, attempt: claim.lease.attempt };
  }),
  pick.map<Command>((index) => async ({ inbox, leases }) => {
    const lease = leases[index % leases.length];
    return lease && inbox.complete(lease);
  }),
  fc
    .tuple(pick, fc.record({ retryAfterMs: fc.option(ms), error: fc.string({ unit: 'binary' }) }))
    .map<Command>(([index, options]) => async ({ inbox, leases }) => {
      const lease = leases[index % leases.length];
      return lease && inbox.fail(lease, options);
    }),
  fc.tuple(fc.array(anyEvent, { maxLength: 8 }), fc.record({ dueInMs: fc.option(ms), origin })).map<Command>(
    ([page, options]) =>
      ({ inbox }) =>
        inbox.record(page, options),
  ),
  fc
    .record({ limit: fc.integer({ min: 1, max: 4 }), visibilityTimeoutMs: ms, types: fc.subarray(TYPES) })
    .map<Command>(
      (options) =>
        ({ inbox }) =>
          inbox.takeDue(options),
    ),
  fc.record({ holder, leaseMs: ms }).map<Command>(
    (options) =>
      ({ inbox }) =>
        inbox.acquirePoll(options),
  ),
  fc
    .tuple(
      fc.record({ watermark: fc.option(fc.nat()), largest: fc.nat() }),
      fc.record({ holder, leaseMs: ms }),
    )
    .map<Command>(
      ([state, options]) =>
        ({ inbox }) =>
          inbox.savePoll(state, options),
    ),
  anyEvent.map<Command>(
    ({ id }) =>
      ({ inbox }) =>
        inbox.requeue(id),
  ),
  ms.map<Command>(
    (olderThanMs) =>
      ({ inbox }) =>
        inbox.prune({ olderThanMs }),
  ),
  fc.constantFrom(...STATES).map<Command>((state) => async ({ inbox }) => {
    const first = await inbox.list({ state, limit: 2 });
    return [first, await inbox.list({ state, limit: 2, after: first.at(-1)?.id })];
  }),
  ms.map<Command>((passed) => async ({ clock }) => {
    clock.ms += passed;
  }),
);

/** Asks each in turn, and after each for everything that there is to see. */
async function play(world: World, asked: readonly Command[]): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (const command of asked) {
    seen.push(await command(world));
    seen.push(await world.inbox.count());
    seen.push(await Promise.all(events.map(({ id }) => world.inbox.find(id))));
  }
  return seen;
}

test('as the memory inbox answers, over random sequences of calls', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(commands, { maxLength: 60, size: 'max' }), async (asked) => {
      const clocks = [{ ms: 1_767_323_045_678 }, { ms: 1_767_323_045_678 }] as const;
      const db = new Database(':memory:');
      const memory = memoryInbox({ now: () => clocks[0].ms });
      const sqlite = sqliteInbox(db, { now: () => clocks[1].ms });
      const expected = await play({ inbox: memory, clock: clocks[0], leases: [] }, asked);
      expect(await play({ inbox: sqlite, clock: clocks[1], leases: [] }, asked)).toEqual(expected);
      db.close();
    }),
    { numRuns: 300 },
  );
});
