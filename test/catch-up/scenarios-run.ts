/** Runs a poller against a simulated service on a virtual clock, and compares each poll with the truth. */
import { createReceiver, EVENT_TYPES, isEventType, memoryInbox, type UnknownEvent } from 'stablehooks';
import {
  createPoller,
  type Gap,
  type PollerClient,
  type PollerOptions,
  type PollReport,
  readPollState,
  type StoredGap,
} from 'stablehooks/catch-up';
import {
  createService,
  MINUTE,
  type ServiceEvent,
  type ServiceOptions,
  type Span,
} from './scenarios-service.js';

type Settings = Pick<PollerOptions, 'lagMs' | 'maxLimit' | 'listMax' | 'disorderMs' | 'intervalMs'>;

/** The options of a run. Times are epoch ms by the service's clock. */
export interface RunOptions extends ServiceOptions, Span {
  /** When the application is down: it polls nothing and no push arrives. */
  readonly down?: readonly Span[] | undefined;
  readonly settings?: Settings | undefined;
  /** Whether an operator changes what the diagnosis names. @default false */
  readonly operated?: boolean | undefined;
}

/** One poll. */
export interface Poll {
  /** When it started. */
  readonly time: number;
  readonly report: PollReport;
}

export interface RunResult {
  readonly polls: readonly Poll[];
  /** What `onGap` was called with. */
  readonly gapCalls: readonly Gap[];
  /** The lines of the log. */
  readonly lines: readonly string[];
  /** The changes of the operator, with their times. */
  readonly changes: readonly { readonly time: number; readonly change: string }[];
  /** Ids of the events that were created after the start date, listed at the last poll, and are not in the inbox. */
  readonly unseen: readonly string[];
  /** The ids of the events that took effect. */
  readonly handled: ReadonlySet<string>;
  /** The first contradictions between what was reported and the truth. */
  readonly faults: readonly string[];
}

/** How long a request takes. */
const ROUND_TRIP_MS = 100;

/** So many changes does an operator make before giving up. */
const MAX_CHANGES = 4;

const NUMBERS = ['lagMs', 'maxLimit', 'listMax', 'disorderMs', 'intervalMs'] as const;

/** The setting and number that a diagnosis tells to change. */
function namedChange(diagnosis: string): Settings {
  for (const name of NUMBERS) {
    const number = new RegExp(`\\b${name} to (\\d+)`).exec(diagnosis)?.[1];
    if (number !== undefined) return { [name]: Number(number) };
  }
  return {};
}

export async function runScenario(options: RunOptions): Promise<RunResult> {
  const clock = { time: options.from };
  const now = () => clock.time;
  const service = createService(options, now);
  const faults: string[] = [];
  const fault = (text: string) => {
    if (faults.length < 10) faults.push(`${new Date(clock.time).toISOString()}: ${text}`);
  };

  const effects = new Map<string, number>();
  const handler = ({ id }: UnknownEvent) => {
    effects.set(id, (effects.get(id) ?? 0) + 1);
    if ((effects.get(id) ?? 0) > 1) fault(`${id} took effect twice`);
  };
  const memory = memoryInbox({ capacity: 10_000_000, runtime: { now } });
  const known = new Set<string>();
  /** Listed events of the five types that the inbox does not have. */
  const unseen = new Map<string, ServiceEvent>();
  const markKnown = (id: string) => {
    known.add(id);
    unseen.delete(id);
  };
  const inbox: typeof memory = {
    ...memory,
    claim: (event, claim) => {
      markKnown(event.id);
      return memory.claim(event, claim);
    },
    record: (events, record) => {
      for (const { id } of events) markKnown(id);
      return memory.record(events, record);
    },
  };
  const lines: string[] = [];
  const logger = { warn: (line: string) => lines.push(line), error: (line: string) => lines.push(line) };
  const handlers = Object.fromEntries(EVENT_TYPES.map((type) => [type, handler]));
  const receiver = createReceiver({ secret: 'secret', inbox, handlers, logger });

  // Pushes before the first poll were not answered.
  const pushes = options.events.filter(
    ({ pushedAt }) => pushedAt >= options.from && Number.isFinite(pushedAt),
  );
  pushes.sort((a, b) => b.pushedAt - a.pushedAt);
  async function push(isUp: boolean): Promise<void> {
    for (let next = pushes.at(-1); next !== undefined && next.pushedAt <= now(); next = pushes.at(-1)) {
      pushes.pop();
      if (isUp) await receiver.accept(next.event, 'push');
    }
  }

  const client: PollerClient = {
    events: {
      listWithProblems: async (query) => {
        clock.time += ROUND_TRIP_MS;
        await push(true);
        return service.list(query);
      },
    },
  };
  const gapCalls: Gap[] = [];
  let settings: Settings = { lagMs: 5 * MINUTE, intervalMs: MINUTE, ...options.settings };
  /** Events that are listed later than any lag in use can be missed: the poller does not know better. */
  let smallestLagMs = settings.lagMs ?? 0;
  const make = () =>
    createPoller({
      client,
      receiver,
      runtime: { now },
      logger,
      onGap: (gap) => {
        gapCalls.push(gap);
      },
      ...settings,
    });

  const changes: { readonly time: number; readonly change: string }[] = [];
  let poller = make();
  function operate({ proven, diagnosis }: PollReport): void {
    if (proven || changes.length >= MAX_CHANGES) return;
    const named = namedChange(diagnosis);
    const changed = NUMBERS.filter((name) => named[name] !== undefined && named[name] !== settings[name]);
    if (changed.length === 0) return;
    settings = { ...settings, ...named };
    smallestLagMs = Math.min(smallestLagMs, settings.lagMs ?? smallestLagMs);
    changes.push({
      time: clock.time,
      change: changed.map((name) => `${name}: ${settings[name]}`).join(', '),
    });
    poller = make();
  }

  function updateUnseen(): void {
    for (const listed of service.takeListed()) {
      const { id, type } = listed.event;
      if (isEventType(type) && !known.has(id)) unseen.set(id, listed);
    }
  }

  /** Each gap is told once when it opens, and once when it closes. */
  function compareCalls(gaps: readonly StoredGap[]): void {
    const keyOf = ({ from, openedAt }: Gap) => `${Date.parse(from)} ${Date.parse(openedAt)}`;
    const [opened, closed] = ['open', 'closed'].map((state) =>
      gapCalls.filter((gap) => gap.state === state).map(keyOf),
    );
    const open = new Set(opened);
    if (open.size !== opened?.length) fault('onGap was called twice for a gap that opened');
    for (const key of closed ?? []) {
      if (!open.delete(key))
        fault('onGap was called twice for a gap that closed, or for one that never opened');
    }
    const stored = gaps.map(({ from, openedAt }) => `${from} ${openedAt}`);
    if (stored.some((key) => !open.has(key))) fault('onGap was not called for a gap that is open');
    if (open.size > stored.length) fault('onGap was not called for a gap that is closed');
  }

  async function compare(): Promise<void> {
    updateUnseen();
    const { since, watermark, gaps } = await readPollState(inbox);
    compareCalls(gaps.filter(({ reason }) => reason !== 'unconfirmed'));
    if (watermark === null) return;
    for (const { at, listedAt, event } of unseen.values()) {
      if (at <= (since ?? 0)) unseen.delete(event.id);
      if (at <= (since ?? 0) || at > watermark || listedAt - at > smallestLagMs) continue;
      const inGap = gaps.some(({ from, until }) => at > from && at <= (until[event.type] ?? from));
      if (!inGap) fault(`${event.id}, created at ${event.created_at}, is missing from what is proven`);
    }
  }

  const polls: Poll[] = [];
  while (clock.time < options.until) {
    const time = clock.time;
    const isUp = options.down?.some(({ from, until }) => time >= from && time < until) !== true;
    await push(isUp);
    if (isUp) {
      const report = await poller.pollOnce();
      polls.push({ time, report });
      await compare();
      if (options.operated === true) operate(report);
    }
    clock.time = Math.max(clock.time, time + (settings.intervalMs ?? MINUTE));
  }
  const { since } = await readPollState(inbox);
  const missing = [...unseen.values()].filter(({ at }) => at > (since ?? 0));
  return {
    polls,
    gapCalls,
    lines,
    changes,
    unseen: missing.map(({ event }) => event.id),
    handled: new Set(effects.keys()),
    faults,
  };
}
