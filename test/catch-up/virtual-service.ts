/** A service in virtual time whose list can be changed at will, and pollers of it. */
import { createReceiver, EVENT_TYPES, memoryInbox, type UnknownEvent } from 'stablehooks';
import { createPoller, type ListedEvents, type PollerOptions } from 'stablehooks/catch-up';

export const START = Date.parse('2026-03-01T12:00:00Z');
export const MINUTE_MS = 60_000;
export const DAY_MS = 24 * 60 * MINUTE_MS;
export const quiet = { warn: () => undefined, error: () => undefined };

export function listed(id: string, at: number, type = 'transfer.settled'): UnknownEvent {
  const created_at = new Date(at).toISOString();
  return { id, type, created_at, payload: {}, delivered: true };
}

/** An event an hour, for so many days before the start. */
export function history(days: number): UnknownEvent[] {
  return Array.from({ length: days * 24 }, (_, hour) =>
    listed(`old-${hour}`, START - (hour + 1) * 3_600_000),
  );
}

/** A service in virtual time with a list in an order of its own, and pollers that share one inbox. */
export function setUp({
  order = 'newest',
  cap = 1_000,
  serve,
}: {
  readonly order?: 'newest' | 'oldest';
  readonly cap?: number;
  /** Answers from the events in their order, in place of the filter by type and the cap. */
  readonly serve?: (
    events: readonly UnknownEvent[],
    query: { readonly type?: string | undefined; readonly limit: number },
  ) => readonly UnknownEvent[];
} = {}) {
  const clock = { now: START };
  const events: UnknownEvent[] = [];
  const service = { up: true, saysItsTime: true };
  const handled: string[] = [];
  const inbox = memoryInbox({ runtime: { now: () => clock.now } });
  const handler = ({ id }: UnknownEvent) => void handled.push(id);
  const receiver = createReceiver({
    secret: 'secret',
    inbox,
    handlers: Object.fromEntries(EVENT_TYPES.map((type) => [type, handler])),
    logger: quiet,
  });
  const client = {
    events: {
      async listWithProblems({
        type,
        limit,
      }: {
        readonly type?: string | undefined;
        readonly limit: number;
      }): Promise<ListedEvents> {
        if (!service.up) throw new Error('503');
        const sign = order === 'newest' ? -1 : 1;
        // Times in ISO 8601 have the order of their texts.
        const sorted = events.toSorted(({ created_at: a }, { created_at: b }) =>
          a === b ? 0 : a < b ? -sign : sign,
        );
        const ofType = sorted.filter((event) => type === undefined || event.type === type);
        const shown = serve?.(sorted, { type, limit }) ?? ofType.slice(0, Math.min(limit, cap));
        return {
          events: shown,
          problems: [],
          size: shown.length,
          servedAt: service.saysItsTime ? clock.now : null,
        };
      },
    },
  };
  const poll = (options: Partial<PollerOptions> = {}) =>
    createPoller({
      client,
      receiver,
      runtime: { now: () => clock.now },
      logger: quiet,
      ...options,
    }).pollOnce();
  return { clock, events, service, handled, inbox, client, poll };
}
