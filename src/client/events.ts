import type { UnknownEvent } from '../core/events.js';
import { type Elements, readElements } from './elements.js';
import { ResponseError, type ResponseFacts } from './errors.js';
import type { Send } from './http.js';

/** Filters for the event list. */
export interface EventQuery {
  /** The event type to list. You can pass a type that is newer than this release. @default all types */
  readonly type?: string | undefined;
  /** The maximum number of events, at least 1. @default 50, the service's own default */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** One response from the event list, divided into events and malformed elements. */
export interface EventList extends Elements {
  /** The time on the service's clock, in epoch ms, from the `Date` header; `null` if the header is missing or invalid. */
  readonly servedAt: number | null;
}

/** The calls for events. Each call rejects with a `ClientError` or, if you abort the call, with the signal's reason. */
export interface Events {
  /**
   * Lists events of known and unknown types. Use `isKnownEvent` to narrow their types. Each event keeps any additional keys.
   *
   * @throws {ResponseError} `ERR_API_RESPONSE` when an element is malformed. `fields` lists paths such as `[3].created_at`.
   */
  list(query?: EventQuery): Promise<readonly UnknownEvent[]>;
  /** Lists events like {@link list}, but reports malformed elements in `problems` instead of rejecting. */
  listWithProblems(query?: EventQuery): Promise<EventList>;
}

export function createEvents(send: Send): Events {
  async function request({ type, limit, signal }: EventQuery = {}): Promise<EventList & ResponseFacts> {
    const query = new URLSearchParams();
    if (type !== undefined) query.set('type', type);
    if (limit !== undefined) query.set('limit', String(limit));
    const path = '/v1/webhooks/events';
    const { value, ...answer } = await send({ method: 'GET', path, query, signal, parse: readElements });
    if (value === null) throw notEvents(answer, []);
    return { ...answer, ...value };
  }

  return {
    async listWithProblems(query) {
      const { events, json, problems, size, servedAt } = await request(query);
      return { events, json, problems, size, servedAt };
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
      ? 'it is not an array. Check the base URL.'
      : `these elements or fields are invalid: ${fields.join(', ')}. Call listWithProblems to get the other events.`;
  const message = `The response to ${facts.method} ${facts.url} is not a list of events: ${what}`;
  return new ResponseError(message, { ...facts, fields });
}
