/** The list of events: one page, judged element by element, so that one bad element costs only itself. */
import { ConfigError, EventError } from '../core/errors.js';
import { toEvent, type UnknownEvent } from '../core/events.js';
import { send } from './call.js';
import { ResponseError } from './errors.js';
import type { ClientRules } from './options.js';

/** Which events to list. */
export interface EventQuery {
  /** One event type, also one newer than this release. @default every type */
  readonly type?: string | undefined;
  /** How many at most, a whole number from 1. @default the service's own, 50 */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An element of the list that is not an event. */
export interface EventProblem {
  /** Where in the answer, from 0. */
  readonly index: number;
  /** What is missing or wrong; empty when the element is no object at all. */
  readonly fields: readonly string[];
  /** The element itself: it may hold a payload, so mind where it is logged. */
  readonly value: unknown;
}

/** One answer of the list, its malformed elements told apart. */
export interface EventPage {
  /** In the order of the answer, which `service.md` does not specify. */
  readonly events: readonly UnknownEvent[];
  readonly problems: readonly EventProblem[];
  /** How many elements the answer had, malformed ones included. */
  readonly size: number;
  /** The service's clock (the `Date` header, whole seconds), epoch ms; `null` when it does not say. */
  readonly servedAt: number | null;
}

/** The calls for events; both reject with a `ClientError`, or the signal's reason. */
export interface Events {
  /**
   * Lists events, of known and of unknown types: `isKnownEvent` narrows each. Keys beyond the envelope are kept.
   *
   * Rejects with `ERR_API_RESPONSE` when any element is malformed, naming it: `[3].created_at`.
   */
  list(query?: EventQuery): Promise<readonly UnknownEvent[]>;
  /** The same answer for those who go on without its malformed elements. */
  page(query?: EventQuery): Promise<EventPage>;
}

const CALL = { method: 'GET', path: '/v1/webhooks/events' } as const;

/** Makes the calls. */
export function createEvents(rules: ClientRules): Events {
  const called = { method: CALL.method, url: rules.baseUrl + CALL.path };
  const wrong = (fields: readonly string[]) =>
    new ResponseError(
      `The answer to ${called.method} ${called.url} is not a list of events: these are missing or wrong: ${fields.join(', ') || 'the list itself'}.`,
      { ...called, fields },
    );
  const page = async (query: EventQuery = {}): Promise<EventPage> => {
    const { value, servedAt } = await send({ ...CALL, query: toSearch(query), signal: query.signal }, rules);
    if (!Array.isArray(value)) throw wrong([]);
    return { ...judge(value), size: value.length, servedAt };
  };
  return {
    page,
    async list(query) {
      const { events, problems } = await page(query);
      if (problems.length === 0) return events;
      throw wrong(
        problems.flatMap(({ index, fields }) =>
          fields.length === 0 ? [`[${index}]`] : fields.map((field) => `[${index}].${field}`),
        ),
      );
    },
  };
}

function toSearch({ type, limit }: EventQuery): URLSearchParams {
  const search = new URLSearchParams();
  if (type !== undefined) {
    if (typeof type !== 'string' || type === '')
      throw new ConfigError('events: `type` must be an event type.');
    search.set('type', type);
  }
  if (limit !== undefined) {
    if (!Number.isSafeInteger(limit) || limit < 1) {
      throw new ConfigError('events: `limit` must be a whole number from 1.');
    }
    search.set('limit', String(limit));
  }
  return search;
}

function judge(elements: readonly unknown[]): Pick<EventPage, 'events' | 'problems'> {
  const events: UnknownEvent[] = [];
  const problems: EventProblem[] = [];
  for (const [index, element] of elements.entries()) {
    try {
      events.push(toEvent(element).event);
    } catch (error) {
      if (!(error instanceof EventError)) throw error;
      problems.push({ index, fields: error.fields, value: element });
    }
  }
  return { events, problems };
}
