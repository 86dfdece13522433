/** A list in virtual time. What the service does not specify (order, cap, lateness, faults) is random. */
import fc from 'fast-check';
import { EVENT_TYPES } from 'stablehooks';
import type { ListAnswer, ListQuery } from '../../src/catch-up/coverage.js';

export const LAG_MS = 300_000;
const UNKNOWN_TYPE = 'wallet.frozen';

/** An event of the simulated service. Times are ms since the first poll. */
export interface SimulatedEvent {
  readonly id: string;
  readonly type: string;
  readonly at: number;
  /** When the list begins to show it. */
  readonly listedAt: number;
  /** When a push brought it, or never. */
  readonly pushedAt: number;
}

/** The order in which the list is cut and, if it differs, the order in which it is then shown. */
const ORDERS = [
  'newest',
  'oldest',
  'shuffled',
  'changing',
  'listed',
  'oldest-shown-newest',
  'shuffled-shown-newest',
] as const;

/** A random server. */
export interface SimulatedServer {
  readonly seed: number;
  readonly backlog: number;
  readonly arrivals: number;
  readonly types: number;
  readonly order: (typeof ORDERS)[number];
  /** Used in turn: where there are several, the cap changes once in the middle of each poll. */
  readonly caps: readonly number[];
  readonly latenessMs: number;
  readonly roundTripMs: number;
  readonly faults: number;
  readonly lostPushes: number;
  readonly pauseMs: number;
  readonly stepMs: number;
  readonly since: number;
  readonly maxLimit: number;
}

const cap = fc.oneof(
  fc.constant(Number.POSITIVE_INFINITY),
  fc.integer({ min: 50, max: 400 }),
  fc.constantFrom(50, 100),
);

export const simulatedServer: fc.Arbitrary<SimulatedServer> = fc.record({
  seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  backlog: fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 300 })),
  arrivals: fc.integer({ min: 0, max: 120 }),
  types: fc.integer({ min: 1, max: 6 }),
  order: fc.constantFrom(...ORDERS),
  caps: fc.oneof(
    cap.map((size) => [size]),
    fc.array(cap, { minLength: 2, maxLength: 4 }),
  ),
  latenessMs: fc.constantFrom(0, 1_000, LAG_MS),
  roundTripMs: fc.constantFrom(1, 100, 3_000),
  faults: fc.constantFrom(0, 0, 0.1),
  lostPushes: fc.constantFrom(0.05, 0.5, 1),
  pauseMs: fc.constantFrom(10_000, 60_000, 600_000, 7_200_000),
  stepMs: fc.constantFrom(1, 1_000, 60_000),
  since: fc.constantFrom(0, -3_600_000, -100_000_000),
  maxLimit: fc.constantFrom(50, 200, 1_000),
});

export const POLLS = 4;

/** A repeatable sequence of numbers from 0 up to 1 (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The list of one server. */
export interface SimulatedList {
  readonly events: readonly SimulatedEvent[];
  /** Answers as of `time`; `null` is a fault. */
  answer(query: ListQuery, moment: { readonly time: number; readonly poll: number }): ListAnswer | null;
}

export function createList(server: SimulatedServer): SimulatedList {
  const random = createRandom(server.seed);
  const kinds = [...EVENT_TYPES, UNKNOWN_TYPE].slice(0, server.types);
  const event = (id: string, time: number): SimulatedEvent => {
    const at = Math.floor(time / server.stepMs) * server.stepMs;
    const listedAt = at + random() * server.latenessMs;
    const pushedAt = random() < server.lostPushes ? Number.POSITIVE_INFINITY : at + random() * 60_000;
    return { id, type: kinds[Math.floor(random() * kinds.length)] ?? UNKNOWN_TYPE, at, listedAt, pushedAt };
  };
  const end = POLLS * server.pauseMs;
  const events = [
    ...Array.from({ length: server.backlog }, (_, index) => event(`b${index}`, -random() * 7_200_000)),
    ...Array.from({ length: server.arrivals }, (_, index) => event(`a${index}`, random() * end)),
  ];
  const storage = new Map(events.map(({ id }) => [id, random()]));

  const rank = (order: SimulatedServer['order']): ((event: SimulatedEvent) => number) => {
    if (order === 'newest') return ({ at }) => -at;
    if (order === 'listed') return ({ listedAt }) => -listedAt;
    if (order === 'oldest' || order === 'oldest-shown-newest') return ({ at }) => at;
    if (order === 'changing') return rank(ORDERS[Math.floor(random() * 3)] ?? 'newest');
    return ({ id }) => storage.get(id) ?? 0;
  };
  const sorted = (list: readonly SimulatedEvent[], key: (event: SimulatedEvent) => number) =>
    list
      .map((item) => ({ item, rank: key(item) }))
      .sort((a, b) => a.rank - b.rank)
      .map(({ item }) => item);

  // The cap changes at a random request of each poll, but not twice: nobody could detect that.
  const changes = Array.from({ length: POLLS }, () => Math.floor(random() * 12));
  const requests = changes.map(() => 0);
  const capAt = (poll: number) => {
    const count = requests[poll] ?? 0;
    requests[poll] = count + 1;
    const turn = count < (changes[poll] ?? 0) ? poll : poll + 1;
    return server.caps[turn % server.caps.length] ?? 50;
  };

  return {
    events,
    answer({ type, limit }, { time, poll }) {
      if (random() < server.faults) return null;
      const listed = events.filter((item) => item.listedAt <= time && (type === null || item.type === type));
      const size = Math.min(limit, capAt(poll));
      const cut = sorted(listed, rank(server.order)).slice(0, size);
      const shown = server.order.endsWith('shown-newest') ? sorted(cut, ({ at }) => -at) : cut;
      return { type, limit, size: shown.length, events: shown, unreadable: [], servedAt: null };
    },
  };
}
