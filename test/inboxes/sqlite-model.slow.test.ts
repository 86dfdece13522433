import fc from 'fast-check';
import Database from 'libsql';
import { memoryInbox, type UnknownEvent } from 'stablehooks';
import { sqliteInbox } from 'stablehooks/inboxes/sqlite';
import { expect, test } from 'vitest';

type TestedInbox = ReturnType<typeof memoryInbox>;
type Claim = Awaited<ReturnType<TestedInbox['claim']>>;

/** An inbox with its clock and the leases that it gave; the tokens of two inboxes differ. */
interface World {
  readonly inbox: TestedInbox;
  readonly clock: { ms: number };
  readonly leases: Extract<Claim, { state: 'claimed' }>['lease'][];
}

/** Calls the inbox and returns plain data, which must be the same for both inboxes. */
type Command = (world: World) => unknown;

const STATES = ['received', 'leased', 'failed', 'done', 'dead', 'parked'] as const;
const TYPES = ['transfer.settled', 'mint.completed'];
const events: readonly UnknownEvent[] = Array.from({ length: 6 }, (_, index) => ({
  id: `evt_${index}`,
  type: TYPES[index % 2] ?? '',
  // The reverse of their order, and two at the same time.
  created_at: `2026-01-02T03:04:0${Math.floor((6 - index) / 2)}Z`,
  payload: { index },
}));

const anyEvent = fc.constantFrom(...events);
const ms = fc.constantFrom(0, 10, 20, 40);
const origin = fc.constantFrom('push', 'pull', 'queue', 'redrive');
const key = fc.constantFrom(undefined, 'a', 'b');
const traceparent = fc.constantFrom(undefined, 'trace 1', 'trace 2');
const holder = fc.constantFrom('a', 'b');
const pick = fc.nat(30);
const time = fc.option(fc.integer({ min: -8.64e15, max: 8.64e15 }));
const gaps = fc.array(
  fc.record({
    from: fc.integer(),
    until: fc.dictionary(fc.string({ unit: 'binary' }), fc.integer(), { noNullPrototype: true }),
    reason: fc.constantFrom('not-reached', 'clock'),
    openedAt: fc.nat(),
    acknowledged: fc.option(
      fc.record({ by: fc.string({ unit: 'binary' }), reason: fc.string({ unit: 'binary' }), at: fc.nat() }),
    ),
  }),
  { maxLength: 3 },
);

const oldest = fc.option(fc.record({ at: time, seenAt: fc.integer() }));

const commands: fc.Arbitrary<Command> = fc.oneof(
  fc
    .tuple(anyEvent, fc.record({ leaseMs: ms, origin, early: fc.boolean(), key, traceparent }))
    .map<Command>(([event, options]) => async (world) => {
      const claim = await world.inbox.claim(event, options);
      if (claim.state !== 'claimed') return claim;
      world.leases.push(claim.lease);
      const { token: _, ...lease } = claim.lease;
      return lease;
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
  fc
    .tuple(
      fc.array(fc.tuple(anyEvent, key), { maxLength: 8 }),
      fc.record({ dueInMs: fc.option(ms), origin, traceparent }),
    )
    .map<Command>(
      ([page, options]) =>
        ({ inbox }) =>
          inbox.record(
            page.map(([event]) => event),
            { ...options, keys: page.map(([, key]) => key) },
          ),
    ),
  fc.tuple(fc.array(anyEvent, { maxLength: 8 }), fc.record({ origin, traceparent })).map<Command>(
    ([page, options]) =>
      ({ inbox }) =>
        inbox.ignore(page, options),
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
      fc.record({ since: time, watermark: time, gaps, limit: fc.nat(), oldest }),
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

/** Runs the commands in order and returns their results, with all counts and records after each. */
async function play(world: World, sequence: readonly Command[]): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (const command of sequence) {
    seen.push(await command(world));
    seen.push(await world.inbox.count());
    seen.push(await world.inbox.pollState());
    seen.push(await Promise.all(events.map(({ id }) => world.inbox.find(id))));
  }
  return seen;
}

test('the SQLite inbox returns the same as the memory inbox for random sequences of calls', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(commands, { maxLength: 60, size: 'max' }), async (sequence) => {
      const clocks = [{ ms: 1_767_323_045_678 }, { ms: 1_767_323_045_678 }] as const;
      const db = new Database(':memory:');
      const memory = memoryInbox({ runtime: { now: () => clocks[0].ms } });
      const sqlite = sqliteInbox(db, { runtime: { now: () => clocks[1].ms } });
      const expected = await play({ inbox: memory, clock: clocks[0], leases: [] }, sequence);
      expect(await play({ inbox: sqlite, clock: clocks[1], leases: [] }, sequence)).toEqual(expected);
      db.close();
    }),
    { numRuns: 300 },
  );
});
