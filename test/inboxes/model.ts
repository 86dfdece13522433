/** Random calls of an inbox, whose answers must be those of the memory inbox. */
import fc from 'fast-check';
import { type InboxState, type Lease, memoryInbox, type UnknownEvent } from 'stablehooks';

type TestedInbox = ReturnType<typeof memoryInbox>;

/** An inbox with its clock and the leases that it gave; the tokens of two inboxes differ. */
export interface World {
  readonly inbox: TestedInbox;
  readonly pass: (ms: number) => void;
  readonly leases: Lease[];
}

/** Calls the inbox and returns plain data, which must be the same for both inboxes. */
export type Command = (world: World) => unknown;

export const START_MS = 1_767_323_045_678;
const TYPES = ['transfer.settled', 'mint.completed'];
export const STATES: readonly InboxState[] = ['received', 'leased', 'failed', 'done', 'dead', 'parked'];
// Created in another order than that of their ids, some of them at the same time.
const CREATED = [3, 1, 2, 1, 3, 0];
export const events: readonly UnknownEvent[] = CREATED.map((second, index) => ({
  id: `evt_${index}`,
  type: TYPES[index % 2] ?? '',
  created_at: `2026-01-02T03:04:0${second}Z`,
  payload: { index },
}));

/** A new list in every call: with the same one, the memory inbox first gives the rest of what it found before. */
export const someTypes = fc.subarray(TYPES);
export const anyEvent = fc.constantFrom(...events);
export const ms = fc.constantFrom(0, 10, 20, 40);

export const claims = (options: fc.Arbitrary<Parameters<TestedInbox['claim']>[1]>) =>
  fc.tuple(anyEvent, options).map<Command>(([event, given]) => async ({ inbox, leases }) => {
    const claim = await inbox.claim(event, given);
    if (claim.state !== 'claimed') return claim;
    leases.push(claim.lease);
    const { token: _, ...lease } = claim.lease;
    return lease;
  });

/** Ends any attempt: completes it, or fails it with these options. */
const ends = (options: fc.Arbitrary<Parameters<TestedInbox['fail']>[1] | undefined>) =>
  fc.tuple(fc.nat(30), options).map<Command>(([index, given]) => async ({ inbox, leases }) => {
    const lease = leases[index % leases.length];
    return lease && (given === undefined ? inbox.complete(lease) : inbox.fail(lease, given));
  });

/** Records a page of events with keys. */
export const records = (
  page: fc.Arbitrary<readonly (readonly [UnknownEvent, string | undefined])[]>,
  options: fc.Arbitrary<Parameters<TestedInbox['record']>[1]>,
) =>
  fc.tuple(page, options).map<Command>(
    ([entries, given]) =>
      ({ inbox }) =>
        inbox.record(
          entries.map(([event]) => event),
          { ...given, keys: entries.map(([, key]) => key) },
        ),
  );

/** The commands that every inbox is tested with. */
export const commonCommands = (errors: fc.Arbitrary<string>): readonly fc.Arbitrary<Command>[] => [
  ends(fc.constant(undefined)),
  ends(fc.record({ retryAfterMs: fc.option(ms), error: errors })),
  anyEvent.map<Command>(
    ({ id }) =>
      ({ inbox }) =>
        inbox.requeue(id),
  ),
  fc.constantFrom({}, ...STATES.map((state) => ({ state }))).map<Command>((filter) => async ({ inbox }) => {
    const first = await inbox.list({ ...filter, limit: 2 });
    return [first, await inbox.list({ ...filter, limit: 2, after: first.at(-1)?.id })];
  }),
  ms.map<Command>(
    (passed) =>
      async ({ pass }) =>
        pass(passed),
  ),
];

/** Opens an inbox with a clock of its own. */
export function openWorld(open: (runtime: { now(): number }) => TestedInbox): World {
  let now = START_MS;
  const pass = (passed: number) => {
    now += passed;
  };
  return { inbox: open({ now: () => now }), pass, leases: [] };
}

export const openMemory = () => openWorld((runtime) => memoryInbox({ runtime }));

/** Runs the commands in order and returns their results, with all counts and records after each. */
export async function play(world: World, sequence: readonly Command[], stepMs = 0): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (const command of sequence) {
    seen.push(await command(world), await world.inbox.count());
    seen.push(await Promise.all(events.map(({ id }) => world.inbox.find(id))));
    world.pass(stepMs);
  }
  return seen;
}
