import * as z from 'zod/mini';
import { Fifo } from './fifo.js';
import type { Random } from './random.js';
import { check, jsonObject, nonEmptyString, SandboxError } from './validation.js';

/** An event as the service lists it. */
export interface SandboxEvent {
  readonly id: string;
  readonly type: string;
  /** Whether an endpoint has responded to the event with a 2xx. */
  readonly delivered: boolean;
  readonly created_at: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export const LIST_ORDERS = ['newest', 'oldest', 'shuffled'] as const;
/** The order of a list. A `limit` cuts off the end of the list. */
export type ListOrder = (typeof LIST_ORDERS)[number];

/** Selects the events to list, and their order. */
export interface SandboxEventQuery {
  readonly type?: string | undefined;
  /** @default every kept event */
  readonly limit?: number | undefined;
  /** @default 'newest' */
  readonly order?: ListOrder | undefined;
  /** Excludes events created after this time, in epoch milliseconds. */
  readonly until?: number | undefined;
}

type LoggedEvent = { -readonly [Field in keyof SandboxEvent]: SandboxEvent[Field] };

const eventInput = z.object({ type: nonEmptyString, payload: jsonObject });

export type EventLog = ReturnType<typeof createEventLog>;

export function createEventLog(random: Random, maxEvents: number) {
  let all = new Fifo<LoggedEvent>();
  const byType = new Map<string, Fifo<LoggedEvent>>();
  const byId = new Map<string, LoggedEvent>();
  let count = 0;
  let shuffles = 0;

  function keep(event: LoggedEvent): void {
    const sameType = byType.get(event.type) ?? new Fifo<LoggedEvent>();
    byType.set(event.type, sameType);
    all.push(event);
    sameType.push(event);
    byId.set(event.id, event);
    if (all.length <= maxEvents) return;
    const oldest = all.shift();
    if (oldest === undefined) return;
    // The oldest event is also the oldest of its type.
    const ofType = byType.get(oldest.type);
    ofType?.shift();
    if (ofType?.length === 0) byType.delete(oldest.type);
    byId.delete(oldest.id);
  }

  function* indices(length: number, limit: number, order: ListOrder): Generator<number> {
    if (order === 'newest') for (let n = 0; n < limit; n++) yield length - 1 - n;
    if (order === 'oldest') for (let n = 0; n < limit; n++) yield n;
    if (order !== 'shuffled') return;
    // A Fisher-Yates shuffle that stops at the limit. `moved` contains only the swapped indices.
    const moved = new Map<number, number>();
    const shuffle = shuffles++;
    for (let n = 0; n < limit; n++) {
      const picked = n + Math.floor(random.number(`shuffle:${shuffle}:${n}`) * (length - n));
      yield moved.get(picked) ?? picked;
      moved.set(picked, moved.get(n) ?? n);
    }
  }

  return {
    append(input: { readonly type: string; readonly payload: unknown }, now: number): SandboxEvent {
      const { type, payload } = check(eventInput, { ...input, payload: toJson(input.payload) });
      count += 1;
      const event: LoggedEvent = {
        id: `evt_${random.hex(`event:${count}`, 16)}`,
        type,
        delivered: false,
        created_at: new Date(now).toISOString(),
        payload,
      };
      keep(event);
      return event;
    },

    /** Includes events that have been dropped. */
    count: () => count,

    get(id: string): SandboxEvent {
      const event = byId.get(id);
      if (event !== undefined) return event;
      throw new SandboxError(
        'ERR_SANDBOX_NOT_FOUND',
        'This event does not exist. Check whether the sandbox was reset in the meantime.',
      );
    },

    markDelivered(id: string): void {
      const event = byId.get(id);
      if (event === undefined || event.delivered) return;
      event.delivered = true;
    },

    isDelivered: (id: string): boolean => byId.get(id)?.delivered === true,

    /** Returns copies, so later deliveries do not change the result. */
    list(query: SandboxEventQuery = {}): SandboxEvent[] {
      const { type, limit = Number.POSITIVE_INFINITY, order = 'newest', until } = query;
      const events = type === undefined ? all : byType.get(type);
      if (events === undefined) return [];
      let length = events.length;
      const last = until === undefined ? undefined : new Date(until).toISOString();
      while (last !== undefined && length > 0 && (events.at(length - 1)?.created_at ?? '') > last) length--;
      const listed: SandboxEvent[] = [];
      for (const index of indices(length, Math.min(limit, length), order)) {
        const event = events.at(index);
        if (event !== undefined) listed.push({ ...event });
      }
      return listed;
    },

    reset(): void {
      all = new Fifo();
      byType.clear();
      byId.clear();
      count = 0;
      shuffles = 0;
    },
  };
}

/** Returns a copy, so that every attempt sends the same bytes even if the caller changes the payload later. */
function toJson(payload: unknown): unknown {
  let isLossy = false;
  try {
    const text = JSON.stringify(payload, (_, value: unknown) => {
      // JSON would contain `null` instead of this number.
      if (typeof value === 'number' && !Number.isFinite(value)) isLossy = true;
      return value;
    });
    if (isLossy) throw new RangeError('The payload contains NaN or a number that is too large.');
    return JSON.parse(text);
  } catch (cause) {
    const detail = isLossy
      ? 'must not contain NaN or a number that is too large for JavaScript'
      : 'must be serializable as JSON';
    const errors = [{ field: 'payload', detail }];
    throw new SandboxError('ERR_SANDBOX_INPUT', `Nothing was fired: payload ${detail}.`, { cause, errors });
  }
}
