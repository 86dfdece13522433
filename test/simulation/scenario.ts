/** The decisions of a seed before its world starts: the service, the app, its events and the faults. */
import type { EventType, UnknownEvent } from 'stablehooks';
import type { FaultsInput } from 'stablehooks-kit/sandbox';
import { createRandom } from './random.js';
import type { Latency } from './world.js';

export interface Behaviour {
  /** The steps of its first run, in ms each; later runs are quick. */
  readonly stepsMs: readonly number[];
  /** How many of its first runs throw. */
  readonly failures: number;
  /** Whether such a run throws before or after its effect. */
  readonly fails: 'before' | 'after';
  /** How many of its first runs ask for a later attempt. */
  readonly laters: number;
  /** Whether it pays in a step before its effect. */
  readonly pays: boolean;
  readonly permanent: boolean;
  readonly hangs: boolean;
}

export interface PlannedEvent extends Behaviour {
  /** When it is created, in ms after the start. */
  readonly atMs: number;
  readonly type: EventType | 'account.frozen';
  readonly key: string | null;
}

export const HANDLED_TYPES = ['accept.confirmed', 'transfer.settled', 'redeem.failed'] as const;

/** Where one process of the app runs at a time. */
export interface Host {
  /** How far its clock is off, in ms. */
  readonly skewMs: number;
  /** The types that others have a handler for, and this one does not. */
  readonly lacks: readonly EventType[];
}

export interface Scenario {
  readonly seed: number;
  /** Another number is another order of the same scenario. */
  readonly order: number;
  /** `plain`: the memory inbox as it is, which answers immediately and is not durable. */
  readonly inbox: 'memory' | 'plain' | 'sqlite' | 'transactional';
  readonly hosts: readonly Host[];
  readonly receiver: {
    readonly answer: 'handled' | 'recorded';
    readonly maxConcurrency: number | undefined;
    readonly leaseMs: number;
    readonly handlerTimeoutMs: number;
    readonly maxAttempts: number;
  };
  readonly hasKeys: boolean;
  readonly hasQueue: boolean;
  /** Whether only the workers of the queue have handlers. */
  readonly isApart: boolean;
  /** Who runs what is due. */
  readonly redrive: {
    readonly by: 'start' | 'cron';
    readonly everyMs: number;
    /** After how long a cron job ends its redrive. */
    readonly limitMs: number | undefined;
  };
  readonly poller: {
    readonly intervalMs: number;
    readonly leaseMs: number;
    readonly lagMs: number;
    readonly limit: number;
    /** A low limit cuts the list, which leaves a gap. */
    readonly maxLimit: number;
    readonly sinceStart: boolean;
  } | null;
  readonly sandbox: {
    readonly endpoints: number;
    readonly timeoutMs: number;
    readonly maxAttempts: number;
    readonly retryBaseMs: number;
    readonly retryMaxMs: number;
  };
  readonly events: readonly PlannedEvent[];
  readonly latency: Latency;
  readonly faults: Partial<Faults>;
  /** The faults of the service, until the world is calm. */
  readonly serviceFaults: FaultsInput;
  /** When all faults end, in ms after the start. */
  readonly calmAtMs: number;
}

/** Whether the app has a handler for an event: in every process, or only in some. */
export function isHandled({ type }: UnknownEvent, lacks: readonly string[] = []): boolean {
  return HANDLED_TYPES.some((each) => each === type) && !lacks.includes(type);
}

export function keyOf({ hasKeys }: Scenario, { payload }: Pick<UnknownEvent, 'payload'>): string | undefined {
  const { key } = payload;
  return hasKeys && typeof key === 'string' ? key : undefined;
}

export function plannedOf({ events }: Scenario, { payload }: Pick<UnknownEvent, 'payload'>): PlannedEvent {
  const planned = events[Number(payload['index'])];
  if (planned === undefined) throw new Error('This event was not planned.');
  return planned;
}

/** Faults of processes, stores and networks, each with its highest probability per step. */
const FAULTS = {
  /** A process ends at a turn of its own. */
  crash: 0.02,
  /** A process is closed and then restarted. */
  restart: 0.005,
  /** Its inbox stops answering when it is closed. */
  cutOff: 1,
  /** A process is suspended for a while. */
  pause: 0.03,
  /** The inbox fails before it has done anything. */
  inboxFails: 0.15,
  /** The inbox does its work, and its answer is lost. */
  inboxAnswerLost: 0.15,
  /** The connection of a transaction fails while its handler runs. */
  transactionLost: 1,
  /** A request between service and app is lost. */
  requestLost: 0.3,
  /** A request arrives, and its answer is lost. */
  answerLost: 0.3,
  /** A delivery arrives once more, at any time later. */
  deliveryRepeated: 0.3,
  /** A sender without the secret sends a delivery beside a genuine one. */
  forged: 0.5,
  queueFails: 0.3,
  queueAnswerLost: 0.3,
  /** A job is given to two workers. */
  jobRepeated: 0.3,
  jobLate: 0.3,
};

export type Faults = Readonly<Record<keyof typeof FAULTS, number>>;

const SERVICE_FAULTS = {
  drop: 0.6,
  duplicate: 0.6,
  reorder: 0.6,
  delay: 0.6,
  corruptSignature: 0.4,
  reserialise: 0.4,
  cut: 0.4,
  reset: 0.4,
  apiTooManyRequests: 0.4,
  apiServerError: 0.4,
  apiSlow: 0.4,
  apiMalformed: 0.4,
  apiReset: 0.4,
  listDuplicate: 0.5,
  listWrongDelivered: 0.5,
} as const satisfies FaultsInput;

/** Every fault by the name that it is counted under. */
export const FAULT_NAMES: readonly string[] = [
  ...Object.keys(FAULTS),
  'slow step',
  ...Object.keys(SERVICE_FAULTS),
  ...['listLagMs', 'list oldest', 'list shuffled', 'listFilterAfterCap'],
];

/** The app has no handler for the last one. */
const KNOWN_TYPES = [
  'accept.confirmed',
  'accept.confirmed',
  'transfer.settled',
  'transfer.settled',
  'redeem.failed',
  'redeem.failed',
  'redeem.completed',
] as const;

export function toScenario(seed: number): Scenario {
  const random = createRandom(seed);
  const { integer, chance, pick } = random;
  const inbox: Scenario['inbox'] = pick(['memory', 'plain', 'sqlite', 'transactional', 'transactional']);
  const hasQueue = inbox !== 'plain' && chance(0.25);
  const isMixed = chance(0.25);
  const hasKeys = chance(0.4);
  const hasPoller = chance(0.6);
  const handlerTimeoutMs = integer(500, 5_000);
  const leaseMs = handlerTimeoutMs + integer(1_000, 15_000);
  const lagMs = integer(3_000, 15_000);
  const isHarsh = chance(0.8);
  const some = <Name extends string>(limits: Readonly<Record<Name, number>>) =>
    Object.fromEntries(
      (Object.entries(limits) as [Name, number][])
        .map(([name, limit]) => [name, isHarsh && chance(0.35) ? limit * random.number() : 0] as const)
        .filter(([, probability]) => probability > 0),
    ) as Partial<Record<Name, number>>;
  const burstMs = pick([200, 5_000, 40_000]);
  const keys = ['k1', 'k2', 'k3'].slice(0, integer(1, 3));
  const events = Array.from({ length: integer(4, 14) }, (): PlannedEvent => {
    const isTroubled = chance(0.35);
    return {
      atMs: integer(1_000, 1_000 + burstMs),
      type: chance(0.06) ? 'account.frozen' : pick(KNOWN_TYPES),
      key: chance(0.85) ? (keys[integer(0, keys.length - 1)] ?? null) : null,
      stepsMs: Array.from({ length: integer(0, 3) }, () =>
        chance(isTroubled ? 0.3 : 0.03) ? integer(0, leaseMs * 1.5) : integer(0, 100),
      ),
      failures: isTroubled && chance(0.5) ? integer(1, 3) : 0,
      fails: chance(0.2) ? 'after' : 'before',
      permanent: isTroubled && chance(0.1),
      hangs: isTroubled && chance(0.15),
      laters: chance(0.15) ? integer(1, 2) : 0,
      pays: chance(0.4),
    };
  });
  return {
    seed,
    order: 0,
    inbox,
    hosts: Array.from({ length: integer(isMixed ? 2 : 1, 3) }, (_, index) => ({
      skewMs: chance(0.5) ? 0 : integer(-lagMs, lagMs),
      // The first one has a handler for each.
      lacks: isMixed && index > 0 ? HANDLED_TYPES.filter(() => chance(0.5)) : [],
    })),
    receiver: {
      answer: inbox !== 'plain' && !hasQueue && chance(0.4) ? 'recorded' : 'handled',
      maxConcurrency: pick([undefined, 1, 1, 2, 4]),
      leaseMs,
      handlerTimeoutMs,
      maxAttempts: pick([1, 3, 6, 25]),
    },
    hasKeys,
    hasQueue,
    isApart: hasQueue && chance(0.5),
    redrive: {
      by: pick(['start', 'cron']),
      everyMs: integer(1_000, 6_000),
      limitMs: chance(0.7) ? integer(100, 3_000) : undefined,
    },
    poller: hasPoller
      ? {
          intervalMs: integer(2_000, 15_000),
          leaseMs: integer(3_000, 20_000),
          lagMs,
          ...pick([
            { limit: 3, maxLimit: 3 },
            { limit: 4, maxLimit: 8 },
            { limit: 5, maxLimit: 1_000 },
            { limit: 50, maxLimit: 1_000 },
          ]),
          sinceStart: chance(0.7),
        }
      : null,
    sandbox: {
      endpoints: chance(0.2) ? 2 : 1,
      timeoutMs: integer(2_000, 10_000),
      maxAttempts: pick([1, 3, 8]),
      retryBaseMs: integer(200, 2_000),
      retryMaxMs: 10_000,
    },
    events: events.toSorted((a, b) => a.atMs - b.atMs),
    latency: {
      usualMs: pick([1, 10, 100]),
      slowMs: integer(2_000, leaseMs * 1.5),
      slow: isHarsh && chance(0.4) ? 0.1 * random.number() : 0,
    },
    faults: some(FAULTS),
    serviceFaults: {
      ...some(SERVICE_FAULTS),
      reorderMs: integer(100, 10_000),
      delayMs: integer(100, 20_000),
      apiSlowMs: integer(500, 12_000),
      listLagMs: chance(0.4) ? integer(0, lagMs) : 0,
      listOrder: chance(0.8) ? 'newest' : pick(['oldest', 'shuffled']),
      listFilterAfterCap: chance(0.1),
    },
    calmAtMs: 1_000 + burstMs + integer(5_000, 30_000),
  };
}
