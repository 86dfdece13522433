/** A list in virtual time. What the service does not specify (order, cap, lateness, clocks, faults) is random. */
import fc from 'fast-check';
import { EVENT_TYPES, isEventType } from 'stablehooks';
import type { PollState } from 'stablehooks/catch-up';
import type { ListAnswer, ListQuery } from '../../src/catch-up/answer.js';
import { byId } from './survey-list.js';

export const LAG_MS = 300_000;
const UNKNOWN_TYPE = 'wallet.frozen';

/** An event of the simulated service. Times are ms since the first poll. */
export interface SimulatedEvent {
  readonly id: string;
  readonly type: string;
  readonly at: number;
  /** When the list begins to show it: at most {@link LAG_MS} after `at`, unless it is a stray. */
  readonly listedAt: number;
  /** When the service removes it from the list, or never. */
  readonly removedAt: number;
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
  'newest-shown-oldest',
  'listed-shown-reversed',
  'oldest-shown-newest',
  'shuffled-shown-newest',
  'grouped',
] as const;

type Order = (typeof ORDERS)[number];

/** A random server. */
export interface SimulatedServer {
  readonly seed: number;
  readonly backlog: number;
  readonly arrivals: number;
  readonly types: number;
  readonly order: Order;
  /** Used in turn: where there are several, the cap changes once in the middle of each poll. */
  readonly caps: readonly number[];
  /** The cap of a query for one type, if it differs. */
  readonly typeCap: number | null;
  /** Cuts the list first and filters by type then. */
  readonly filtersLate: boolean;
  readonly latenessMs: number;
  /** By how much `created_at` is out of the order in which events happen. */
  readonly jitterMs: number;
  /** The share of events that are created up to {@link LAG_MS} before they are listed. */
  readonly backdated: number;
  /** How many events are listed later than {@link LAG_MS}: nobody can know of these, but they must not mislead. */
  readonly strays: number;
  /** For how long the list shows an event after it was created. */
  readonly retentionMs: number;
  /** How much the clock of this machine is ahead of the one that writes `created_at`. */
  readonly clockMs: number;
  /** How much the service's `Date` header is ahead of it; `null` for no header. */
  readonly dateMs: number | null;
  readonly roundTripMs: number;
  readonly faults: number;
  readonly lostPushes: number;
  readonly polls: number;
  readonly pauseMs: number;
  /** How much longer the pause in the middle of the polls is. No push arrives then. */
  readonly outageMs: number;
  readonly stepMs: number;
  readonly since: number;
  readonly maxLimit: number;
  /** What the app declares; 0 for nothing. */
  readonly listMax: number;
}

const HOUR = 3_600_000;
const NEVER = Number.POSITIVE_INFINITY;

const cap = fc.oneof(fc.constant(NEVER), fc.integer({ min: 50, max: 400 }), fc.constantFrom(50, 100));

export const simulatedServer: fc.Arbitrary<SimulatedServer> = fc
  .record({
    seed: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    backlog: fc.oneof(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 300 })),
    arrivals: fc.integer({ min: 0, max: 120 }),
    types: fc.integer({ min: 1, max: 6 }),
    order: fc.constantFrom(...ORDERS),
    caps: cap.map((size) => [size]),
    typeCap: fc.constant(null),
    filtersLate: fc.constantFrom(false, false, false, true),
    latenessMs: fc.constantFrom(0, 1_000, LAG_MS),
    jitterMs: fc.constantFrom(0, 50, 900),
    backdated: fc.constantFrom(0, 0, 0.02, 0.2),
    strays: fc.constantFrom(0, 0, 1, 2),
    retentionMs: fc.oneof(
      { weight: 3, arbitrary: fc.constant(NEVER) },
      { weight: 2, arbitrary: fc.constantFrom(4 * HOUR, 12 * HOUR) },
      { weight: 1, arbitrary: fc.integer({ min: 600_000, max: 2 * HOUR }) },
    ),
    clockMs: fc.constantFrom(0, 0, 60_000, HOUR, -60_000, -HOUR),
    dateMs: fc.constantFrom(0, 0, null, 60_000, HOUR, -HOUR),
    roundTripMs: fc.constantFrom(1, 100, 3_000),
    faults: fc.constantFrom(0, 0, 0.1),
    lostPushes: fc.constantFrom(0.05, 0.5, 1),
    polls: fc.constant(4),
    pauseMs: fc.constantFrom(10_000, 60_000, 600_000, 7_200_000),
    outageMs: fc.constantFrom(0, 0, 3 * HOUR),
    stepMs: fc.constantFrom(1, 1_000, 60_000, 3 * HOUR),
    since: fc.constantFrom(0, -HOUR, -100_000_000),
    maxLimit: fc.constantFrom(50, 200, 1_000),
    listMax: fc.constantFrom(0, 0, 100, 1_000),
  })
  .map((server) => {
    // The poller assumes that the earlier of the two clocks is not ahead by more than what the lag allows for.
    const spareMs = LAG_MS - Math.max(server.latenessMs, server.backdated > 0 ? LAG_MS : server.jitterMs);
    const isAhead = Math.min(server.clockMs, server.dateMs ?? NEVER) > spareMs;
    // It also assumes that the service keeps events for longer than the later of the two clocks is behind.
    const keptMs = server.retentionMs - 2 * LAG_MS;
    const isBehind = Math.max(server.clockMs, server.dateMs ?? -NEVER) < -Math.max(keptMs, 0);
    // And that an event that is listed late stays for a poll to see it.
    const isPunctual = server.retentionMs <= LAG_MS + server.pauseMs + server.outageMs;
    // And that a list that has one type after the other is filtered before it is cut: else it never shows the other types.
    const filtersLate = server.filtersLate && server.order !== 'grouped';
    return {
      ...{ ...server, filtersLate },
      ...((isAhead || isBehind) && { clockMs: 0 }),
      ...(isPunctual && { latenessMs: 0, backdated: 0, jitterMs: 0 }),
    };
  });

/** A server whose cap falls and rises, or that has another cap for each type: the poller assumes that it does not. */
export const changingServer = fc
  .record({
    server: simulatedServer,
    caps: fc.array(cap, { minLength: 1, maxLength: 4 }),
    typeCap: fc.option(cap, { nil: null }),
  })
  .map(({ server, caps, typeCap }): SimulatedServer => {
    // A server that cuts first has not looked at the type.
    return { ...server, caps, typeCap: server.filtersLate ? null : typeCap, listMax: 0 };
  });

/**
 * The same, and the app declares the lowest of its caps, so the poller assumes nothing. Events of one type that a server
 * finds in its first page alone would contradict the declaration.
 */
export const declaredServer = changingServer.map(
  (server): SimulatedServer => ({
    ...server,
    filtersLate: false,
    listMax: Math.min(...server.caps, server.typeCap ?? NEVER, 1_000),
  }),
);

/** When a poll of this server starts, in ms since the first. */
export function startOf({ polls, pauseMs, outageMs }: SimulatedServer, poll: number): number {
  return poll * pauseMs + (poll >= polls / 2 ? outageMs : 0);
}

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
  const end = startOf(server, server.polls);
  const outage = {
    from: startOf({ ...server, outageMs: 0 }, server.polls / 2 - 1),
    until: startOf(server, server.polls / 2),
  };
  const event = (id: string, time: number): SimulatedEvent => {
    const step = Math.floor(time / server.stepMs) * server.stepMs;
    const jittered = Math.floor(step - random() * server.jitterMs);
    const listedAt = Math.min(step + random() * server.latenessMs, jittered + LAG_MS);
    const isBackdated = random() < server.backdated;
    const at = isBackdated ? Math.ceil(listedAt - random() * LAG_MS) : jittered;
    const type = kinds[Math.floor(random() * kinds.length)] ?? UNKNOWN_TYPE;
    const arrival = listedAt + random() * 60_000;
    const isLost =
      random() < server.lostPushes ||
      (server.outageMs > 0 && arrival > outage.from && arrival <= outage.until);
    return { id, type, at, listedAt, removedAt: at + server.retentionMs, pushedAt: isLost ? NEVER : arrival };
  };
  const stray = (id: string): SimulatedEvent => {
    const usual = event(id, random() * end);
    const at = Math.floor(usual.listedAt - LAG_MS - 1 - random() * 6 * HOUR);
    return { ...usual, at, removedAt: at + server.retentionMs, pushedAt: NEVER };
  };
  const events = [
    ...Array.from({ length: server.backlog }, (_, index) => event(`b${index}`, -random() * 2 * HOUR)),
    ...Array.from({ length: server.arrivals }, (_, index) => event(`a${index}`, random() * end)),
    ...Array.from({ length: server.strays }, (_, index) => stray(`s${index}`)),
  ];
  const storage = new Map(events.map(({ id }) => [id, random()]));

  const rank = (order: Order): ((event: SimulatedEvent) => number) => {
    if (order.startsWith('newest')) return ({ at }) => -at;
    if (order.startsWith('listed')) return ({ listedAt }) => -listedAt;
    if (order.startsWith('oldest')) return ({ at }) => at;
    // One type after the other, and the newest of each first.
    if (order === 'grouped') return ({ type, at }) => kinds.indexOf(type) * 100 * HOUR - at;
    if (order === 'changing') return rank(ORDERS[Math.floor(random() * 3)] ?? 'newest');
    return ({ id }) => storage.get(id) ?? 0;
  };
  const sorted = (list: readonly SimulatedEvent[], key: (event: SimulatedEvent) => number) =>
    list
      .map((item) => ({ item, rank: key(item) }))
      .sort((a, b) => a.rank - b.rank)
      .map(({ item }) => item);
  const show = (cut: readonly SimulatedEvent[]) => {
    if (server.order.endsWith('shown-newest')) return sorted(cut, ({ at }) => -at);
    if (server.order.endsWith('shown-oldest')) return sorted(cut, ({ at }) => at);
    return server.order.endsWith('shown-reversed') ? cut.toReversed() : cut;
  };

  // The cap changes at a random request of each poll, but not twice: nobody could detect that.
  const changes = Array.from({ length: server.polls }, () => Math.floor(random() * 12));
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
      const matches = (item: SimulatedEvent) => type === null || item.type === type;
      const listed = events.filter(
        (item) => item.listedAt <= time && item.removedAt > time && (server.filtersLate || matches(item)),
      );
      const whole = capAt(poll);
      const size = Math.min(limit, (type === null ? null : server.typeCap) ?? whole);
      const shown = show(sorted(listed, rank(server.order)).slice(0, size)).filter(matches);
      const servedAt = server.dateMs === null ? null : time + server.dateMs;
      return { type, limit, size: shown.length, events: byId(shown), unreadable: [], servedAt };
    },
  };
}

/** Compares what a poller has recorded and calls proven with what the list had. */
export interface Audit {
  /** The events that are missing after a poll: created from the start date up to the watermark, in no gap, not recorded. */
  missed(poll: {
    readonly before: PollState;
    readonly after: PollState;
    readonly time: number;
    readonly isRecorded: (event: SimulatedEvent) => boolean;
  }): readonly SimulatedEvent[];
  /** No longer expects what a state calls proven. */
  forget(state: PollState): void;
}

/** Whether the app declares more than the service lists. */
export function declaresTooMuch({ listMax, caps, typeCap }: SimulatedServer): boolean {
  return listMax > Math.min(...caps, typeCap ?? NEVER);
}

/** The states of the poller have times as the list has them: ms since the first poll. */
export function createAudit({ events }: SimulatedList): Audit {
  const expected = new Set(
    events.filter(({ type, at, listedAt }) => isEventType(type) && listedAt - at <= LAG_MS),
  );
  return {
    forget({ watermark }) {
      for (const event of expected) if (event.at <= (watermark ?? -NEVER)) expected.delete(event);
    },
    missed({ before, after, time, isRecorded }) {
      // A poller that has never seen an event in the list cannot know that the service removes any, unless push brought one
      // that is as old.
      const { at: oldestAt, seenAt = -NEVER } = before.oldest ?? { at: null };
      const knownFrom = seenAt === -NEVER ? (oldestAt ?? NEVER) : -NEVER;
      for (const event of expected) {
        const isUnknowable = event.at < knownFrom && event.removedAt <= time;
        if (isUnknowable || isRecorded(event)) expected.delete(event);
      }
      const { since, watermark, gaps } = after;
      // Nothing is proven until the watermark leaves the start date.
      if (watermark === since) return [];
      return [...expected].filter(
        ({ type, at }) =>
          at >= (since ?? 0) &&
          at <= (watermark ?? Number.NEGATIVE_INFINITY) &&
          !gaps.some(({ from, until }) => at > from && at <= (until[type] ?? from)),
      );
    },
  };
}
