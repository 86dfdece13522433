/** The events that were fired, oldest first, within a bound; found by id and listed by type without a search. */
import * as z from 'zod/mini';
import { text } from './fields.js';
import { Fifo } from './fifo.js';
import { check, SandboxError } from './problem.js';
import type { Random } from './random.js';

/** An event, with the fields of `service.md` in its order. */
export interface SandboxEvent {
  readonly id: string;
  readonly type: string;
  /** Whether some endpoint answered 2xx. */
  readonly delivered: boolean;
  readonly created_at: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** In which order the list answers, and so what of it a `limit` cuts off. */
export const LIST_ORDERS = ['newest', 'oldest', 'shuffled'] as const;
export type ListOrder = (typeof LIST_ORDERS)[number];

/** What to list. */
export interface EventQuery {
  readonly type?: string | undefined;
  /** @default every event that is kept */
  readonly limit?: number | undefined;
  /** @default 'newest' */
  readonly order?: ListOrder | undefined;
  /** Leaves out what was created after this time, epoch ms. */
  readonly until?: number | undefined;
}

/** What {@link createEventLog} keeps in a state file. */
export interface EventLogState {
  readonly count: number;
  readonly events: readonly SandboxEvent[];
}

type LoggedEvent = { -readonly [Field in keyof SandboxEvent]: SandboxEvent[Field] };

const emitInput = z.object({
  type: text,
  payload: z.custom<Readonly<Record<string, unknown>>>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    'must be a JSON object',
  ),
});

export type EventLog = ReturnType<typeof createEventLog>;

export function createEventLog(options: { readonly random: Random; readonly maxEvents: number }) {
  const { random, maxEvents } = options;
  let all = new Fifo<LoggedEvent>();
  let byType = new Map<string, Fifo<LoggedEvent>>();
  let byId = new Map<string, LoggedEvent>();
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
    // The oldest of all is the oldest of its type.
    const ofType = byType.get(oldest.type);
    ofType?.shift();
    if (ofType?.length === 0) byType.delete(oldest.type);
    byId.delete(oldest.id);
  }

  /** Which places of the list to answer, in order. */
  function* places(length: number, { limit, order }: { limit: number; order: ListOrder }): Generator<number> {
    if (order === 'newest') for (let n = 0; n < limit; n++) yield length - 1 - n;
    if (order === 'oldest') for (let n = 0; n < limit; n++) yield n;
    if (order !== 'shuffled') return;
    // Fisher and Yates, only as far as asked: `moved` holds the few places that differ from their number.
    const moved = new Map<number, number>();
    const shuffle = shuffles++;
    for (let n = 0; n < limit; n++) {
      const picked = n + Math.floor(random.number(`shuffle:${shuffle}:${n}`) * (length - n));
      yield moved.get(picked) ?? picked;
      moved.set(picked, moved.get(n) ?? n);
    }
  }

  return {
    /** @throws {SandboxError} `ERR_SANDBOX_INPUT` */
    append(
      input: { readonly type: string; readonly payload: unknown },
      at: { readonly now: number },
    ): SandboxEvent {
      const { type, payload } = check(emitInput, { ...input, payload: toJson(input.payload) });
      count += 1;
      const event: LoggedEvent = {
        id: `evt_${random.hex(`event:${count}`, { digits: 16 })}`,
        type,
        delivered: false,
        created_at: new Date(at.now).toISOString(),
        payload,
      };
      keep(event);
      return event;
    },

    /** How many events were ever fired. */
    count: () => count,
    find: (id: string): SandboxEvent | undefined => byId.get(id),

    /** @throws {SandboxError} `ERR_SANDBOX_NOT_FOUND` */
    get(id: string): SandboxEvent {
      const event = byId.get(id);
      if (event !== undefined) return event;
      throw new SandboxError(
        'ERR_SANDBOX_NOT_FOUND',
        'There is no event of this id. Was it fired before a reset?',
      );
    },

    markDelivered(id: string): void {
      const event = byId.get(id);
      if (event !== undefined) event.delivered = true;
    },

    /** Copies, so that an answer does not change once given. */
    list({
      type,
      limit = Number.POSITIVE_INFINITY,
      order = 'newest',
      until,
    }: EventQuery = {}): SandboxEvent[] {
      const source = type === undefined ? all : byType.get(type);
      if (source === undefined) return [];
      let length = source.length;
      const last = until === undefined ? undefined : new Date(until).toISOString();
      while (last !== undefined && length > 0 && (source.at(length - 1)?.created_at ?? '') > last) length--;
      const events: SandboxEvent[] = [];
      for (const place of places(length, { limit: Math.min(limit, length), order })) {
        const event = source.at(place);
        if (event !== undefined) events.push({ ...event });
      }
      return events;
    },

    save: (): EventLogState => ({ count, events: all.toArray() }),
    load(state: EventLogState | undefined): void {
      all = new Fifo();
      byType = new Map();
      byId = new Map();
      count = state?.count ?? 0;
      shuffles = 0;
      for (const event of state?.events ?? []) keep({ ...event });
    },
  };
}

/** Every attempt sends the same bytes, whatever the caller does with its object later. */
function toJson(payload: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(payload));
  } catch (cause) {
    const errors = [{ field: 'payload', detail: 'must be what JSON can hold' }];
    throw new SandboxError('ERR_SANDBOX_INPUT', 'Nothing was fired: payload must be what JSON can hold.', {
      cause,
      errors,
    });
  }
}
