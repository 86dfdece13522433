import type { UnknownEvent } from '../core/events.js';
import { type Elements, readElements } from './elements.js';
import { ResponseError, type ResponseFacts } from './errors.js';
import type { Send } from './http.js';

/** Filters of the list. */
export interface EventQuery {
  /** One event type, which may be newer than this release. @default every type */
  readonly type?: string | undefined;
  /** The maximum number of events, an integer from 1. @default the service's own, 50 */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** One answer of the list, malformed elements apart. */
export interface EventList extends Elements {
  /** The service's clock (the `Date` header, whole seconds), epoch ms; `null` without that header. */
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
      ? 'The problem is the list itself: it is not an array. Check the base URL.'
      : `These are missing or wrong: ${fields.join(', ')}. Call listWithProblems to get the other events.`;
  const message = `The answer to ${facts.method} ${facts.url} is not a list of events. ${what}`;
  return new ResponseError(message, { ...facts, fields });
}
