import { hasCode } from '../core/errors.js';
import { toEvent, type UnknownEvent } from '../core/events.js';
import { ResponseError, type ResponseFacts } from './errors.js';
import type { Send } from './http.js';

/** Filters of the list. */
export interface EventQuery {
  /** One event type; it can be newer than this release. @default every type */
  readonly type?: string | undefined;
  /** The maximum number of events, an integer from 1. @default the service's own, 50 */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An element of the list that is not an event. */
export interface EventProblem {
  /** Its position in the answer, from 0. */
  readonly index: number;
  /** The missing or wrong fields; empty when the element is not an object. */
  readonly fields: readonly string[];
  /** The element itself. It can contain a payload: take care where you log it. */
  readonly value: unknown;
}

/** One answer of the list, with malformed elements listed separately. */
export interface EventList {
  /** In the order of the answer, which is not specified. */
  readonly events: readonly UnknownEvent[];
  readonly problems: readonly EventProblem[];
  /** The number of elements in the answer, malformed ones included. */
  readonly size: number;
  /** The service's clock (the `Date` header, whole seconds), epoch ms; `null` when the header is missing. */
  readonly servedAt: number | null;
}

/** The calls for events. Both reject with a `ClientError` or the signal's reason. */
export interface Events {
  /**
   * Lists events of known and unknown types: `isKnownEvent` narrows each. Keys beyond the envelope are kept.
   *
   * @throws {ResponseError} `ERR_API_RESPONSE` when an element is malformed, naming it: `[3].created_at`.
   */
  list(query?: EventQuery): Promise<readonly UnknownEvent[]>;
  /** Lists events like {@link list}, but reports malformed elements in `problems` instead of rejecting. */
  listWithProblems(query?: EventQuery): Promise<EventList>;
}

export function createEvents(send: Send): Events {
  async function request(query: EventQuery = {}): Promise<EventList & ResponseFacts> {
    const { value, ...answer } = await send({
      method: 'GET',
      path: '/v1/webhooks/events',
      query: toSearchParams(query),
      signal: query.signal,
    });
    if (!Array.isArray(value)) throw notEvents(answer, []);
    return { ...answer, ...splitElements(value), size: value.length };
  }

  return {
    async listWithProblems(query) {
      const { events, problems, size, servedAt } = await request(query);
      return { events, problems, size, servedAt };
    },
    async list(query) {
      const answer = await request(query);
      if (answer.problems.length === 0) return answer.events;
      const fields = answer.problems.flatMap(({ index, fields }) =>
        fields.length === 0 ? [`[${index}]`] : fields.map((field) => `[${index}].${field}`),
      );
      throw notEvents(answer, fields);
    },
  };
}

function notEvents(facts: ResponseFacts, fields: readonly string[]): ResponseError {
  const what =
    fields.length === 0
      ? 'The problem is the list itself: it is not an array. Check baseUrl.'
      : `These are missing or wrong: ${fields.join(', ')}. Call listWithProblems to get the other events.`;
  const message = `The answer to ${facts.method} ${facts.url} is not a list of events. ${what}`;
  return new ResponseError(message, { ...facts, fields });
}

function toSearchParams({ type, limit }: EventQuery): URLSearchParams {
  const search = new URLSearchParams();
  if (type !== undefined) search.set('type', type);
  if (limit !== undefined) search.set('limit', String(limit));
  return search;
}

function splitElements(elements: readonly unknown[]): Pick<EventList, 'events' | 'problems'> {
  const events: UnknownEvent[] = [];
  const problems: EventProblem[] = [];
  for (const [index, element] of elements.entries()) {
    try {
      events.push(toEvent(element).event);
    } catch (error) {
      if (!hasCode(error, 'ERR_EVENT_MALFORMED')) throw error;
      problems.push({ index, fields: error.fields ?? [], value: element });
    }
  }
  return { events, problems };
}
