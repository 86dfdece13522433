/** Deliveries: each event to each endpoint, tried until it answers 2xx or the attempts are used up. */
import { type Attempt, makeAttempt } from './attempt.js';
import type { Clock } from './clock.js';
import type { Endpoints, Target } from './endpoints.js';
import type { EventLog, SandboxEvent } from './event-log.js';
import type { FaultSource } from './faults.js';
import type { Feed } from './feed.js';
import { Fifo } from './fifo.js';
import { createLanes } from './lanes.js';
import type { Random } from './random.js';
import type { OutcomeCounts } from './tally.js';

/** `exhausted`: every attempt failed, or the endpoint or, after a restart, the event is gone. */
export type DeliveryState = 'pending' | 'delivered' | 'exhausted';

/** One event on its way to one endpoint. */
export interface Delivery {
  readonly id: string;
  readonly eventId: string;
  readonly endpointId: string;
  readonly state: DeliveryState;
  /** How many attempts were begun. */
  readonly attempts: number;
}

/** How deliveries are tried; every option has its default in `createSandbox`. */
export interface DeliveryOptions {
  readonly timeoutMs: number;
  readonly maxAttempts: number;
  readonly retryBaseMs: number;
  readonly retryMaxMs: number;
  /** How many attempts run at once towards one endpoint: one that never answers holds up only itself. */
  readonly concurrency: number;
  readonly maxAttemptsKept: number;
  readonly keptDeliveries: number;
}

/** What {@link createDeliveries} keeps in a state file. */
export interface DeliveriesState {
  readonly count: number;
  readonly deliveries: readonly Delivery[];
  readonly attempts: readonly Attempt[];
}

interface Parts {
  readonly clock: Clock;
  readonly random: Random;
  readonly faults: FaultSource;
  readonly endpoints: Endpoints;
  readonly events: EventLog;
  readonly feed: Feed;
  readonly tally: OutcomeCounts;
}

type Run = { -readonly [Field in keyof Delivery]: Delivery[Field] } & { readonly event: SandboxEvent };
/** The time from a start to the next reset: attempts of one that is over leave no trace. */
interface Era {
  over: boolean;
  readonly underWay: Set<AbortController>;
}

export function createDeliveries(parts: Parts, options: DeliveryOptions) {
  const { clock, random, faults, endpoints, events, feed, tally } = parts;
  let pending = new Map<string, Run>();
  let ended = new Fifo<Delivery>();
  let attempts = new Fifo<Attempt>();
  let current: Era = { over: false, underWay: new Set() };
  let lanes = lanesOf(current);
  let count = 0;

  function start(event: SandboxEvent, target: Target): void {
    count += 1;
    const id = `del_${random.hex(`delivery:${count}`, { digits: 16 })}`;
    const run: Run = { id, eventId: event.id, endpointId: target.id, state: 'pending', attempts: 0, event };
    const { reorderMs, delayMs } = faults.get();
    const held = faults.strikes('reorder', id) ? Math.ceil(random.number(`hold:${id}`) * reorderMs) : 0;
    const delayed = faults.strikes('delay', id) ? delayMs : 0;
    track(run, held + delayed);
  }

  function track(run: Run, waitMs: number): void {
    pending.set(run.id, run);
    tally.begin();
    queue(run, waitMs);
  }

  function queue(run: Run, waitMs: number): void {
    if (waitMs > 0) {
      clock.after(waitMs, () => queue(run, 0));
      return;
    }
    lanes.push(run, { lane: run.endpointId });
  }

  function lanesOf(era: Era) {
    const work = (run: Run) => {
      const tried = attempt(run, era);
      clock.hold(tried);
      return tried;
    };
    return createLanes<Run>({ concurrency: options.concurrency, work });
  }

  async function attempt(run: Run, era: Era): Promise<void> {
    const target = endpoints.find(run.endpointId);
    if (run.state !== 'pending') return;
    // A state file does not keep functions.
    if (target === undefined) return end(run, 'exhausted');
    run.attempts += 1;
    const giveUp = new AbortController();
    era.underWay.add(giveUp);
    const { event, id: deliveryId, attempts: number } = run;
    const plan = { event, target, deliveryId, number, timeoutMs: options.timeoutMs, giveUp };
    const doubled = faults.strikes('duplicate', `${deliveryId}:${number}`);
    const copies = doubled ? [[], ['duplicate']] : [[]];
    const made = await Promise.all(
      copies.map((struck) => makeAttempt({ ...plan, struck }, { clock, faults })),
    );
    era.underWay.delete(giveUp);
    if (era.over) return;
    for (const one of made) {
      attempts.push(one);
      if (attempts.length > options.maxAttemptsKept) attempts.shift();
      feed.publish('attempt.made', one);
    }
    const delivered = made.some(
      ({ response }) => response !== null && Math.floor(response.status / 100) === 2,
    );
    if (delivered) events.markDelivered(run.eventId);
    // Its endpoint was removed meanwhile.
    if (run.state !== 'pending') return;
    if (delivered) return end(run, 'delivered');
    if (number >= options.maxAttempts) return end(run, 'exhausted');
    const fullMs = Math.min(options.retryBaseMs * 2 ** Math.min(number - 1, 52), options.retryMaxMs);
    // Up to half of the wait is taken off, so that deliveries that failed together do not come back together.
    const jitter = 0.5 + random.number(`retry:${deliveryId}:${number}`) / 2;
    queue(run, Math.max(1, Math.round(fullMs * jitter)));
  }

  function end(run: Run, state: DeliveryState): void {
    run.state = state;
    pending.delete(run.id);
    ended.push(toDelivery(run));
    if (ended.length > options.keptDeliveries) ended.shift();
    feed.publish(`delivery.${state}`, toDelivery(run));
    tally.end();
  }

  function stop(): void {
    current.over = true;
    lanes.close();
    for (const giveUp of current.underWay) giveUp.abort(new Error('The sandbox was closed or reset.'));
  }

  const all = (): Delivery[] => [...ended.toArray(), ...[...pending.values()].map(toDelivery)];

  return {
    /** Begins to deliver an event to every endpoint. */
    begin(event: SandboxEvent): void {
      for (const target of endpoints.list()) start(event, target);
    },
    /** Gives up what is pending for an endpoint. */
    giveUp(endpointId: string): void {
      for (const run of pending.values()) if (run.endpointId === endpointId) end(run, 'exhausted');
    },
    /** Newest first: those still pending, then those that ended. */
    list: (): Delivery[] => all().toReversed(),
    /** Oldest first. */
    attempts: (): readonly Attempt[] => attempts.toArray(),

    /** Gives up every attempt under way. */
    stop,

    save: (): DeliveriesState => ({
      count,
      deliveries: all(),
      attempts: attempts.toArray(),
    }),
    load(state: DeliveriesState | undefined): void {
      stop();
      current = { over: false, underWay: new Set() };
      pending = new Map();
      ended = new Fifo();
      attempts = new Fifo();
      lanes = lanesOf(current);
      count = state?.count ?? 0;
      for (const one of state?.attempts ?? []) attempts.push(one);
      for (const delivery of state?.deliveries ?? []) {
        const event = events.find(delivery.eventId);
        if (delivery.state !== 'pending') ended.push(delivery);
        else if (event === undefined) ended.push({ ...delivery, state: 'exhausted' });
        else track({ ...delivery, event }, 0);
      }
    },
  };
}

function toDelivery({ id, eventId, endpointId, state, attempts }: Delivery): Delivery {
  return { id, eventId, endpointId, state, attempts };
}
