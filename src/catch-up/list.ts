import type { EventProblem } from '../client/elements.js';
import type { EventList } from '../client/events.js';
import {
  createdAtMs,
  type EventType,
  encodeEvent,
  isDateTime,
  isEventType,
  type UnknownEvent,
} from '../core/events.js';
import { nextTurn } from '../core/runtime.js';
import type { EventKey, ListAnswer, ListQuery } from './answer.js';
import type { SurveyResult } from './conclude.js';
import { surveyList } from './coverage.js';
import type { SurveyOptions } from './evidence.js';
import { type PollProblem, toProblem } from './problems.js';
import { isSameElement } from './same-event.js';

/** The part of the client from `stablehooks/client` that the poller uses. */
export interface PollerClient {
  readonly events: {
    /** Lists events, and returns the valid events separately from the problems with malformed elements. */
    listWithProblems(query: {
      readonly type?: EventType | undefined;
      readonly limit: number;
      readonly signal: AbortSignal;
    }): Promise<ListedEvents>;
  };
}

/** A response from the service's event list. A client that you write yourself can omit `json` and `servedAt`. */
export type ListedEvents = Pick<EventList, 'events' | 'problems' | 'size'> &
  Partial<Pick<EventList, 'json' | 'servedAt'>>;

export interface ListedEvent {
  readonly event: UnknownEvent;
  /** Exactly what the service sent, if the client returns it. */
  readonly json: string;
  /** When the event was created, in epoch ms. */
  readonly at: number;
}

/** After this many elements of a response, the process yields to other work. */
const PIECE = 5_000;

export class ListReader {
  readonly #client: PollerClient;
  readonly #signal: AbortSignal;
  readonly #first = new Map<string, ListedEvent>();
  /** The ids that different events share, each with the creation time of the newest of these events. */
  readonly #conflicts = new Map<string, number>();
  readonly #malformed: (readonly EventProblem[])[] = [];
  readonly #failures = new Map<string, PollProblem>();
  requests = 0;
  lastError: unknown;

  constructor(client: PollerClient, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
  }

  /** Resolves to `null` if the query fails or is aborted. */
  async read(query: ListQuery): Promise<ListAnswer | null> {
    const signal = this.#signal;
    if (signal.aborted) return null;
    this.requests += 1;
    try {
      const { type, limit } = query;
      const list = await this.#client.events.listWithProblems({ type: type ?? undefined, limit, signal });
      return { ...query, ...(await this.#keep(list)) };
    } catch (error) {
      this.lastError = error;
      const problem = toProblem(error, { code: 'ERR_API_RESPONSE' });
      if (!signal.aborted) this.#failures.set(problem.code + problem.message, problem);
      return null;
    }
  }

  async #keep(list: ListedEvents): Promise<Omit<ListAnswer, keyof ListQuery>> {
    const { events, json, problems, size, servedAt } = list;
    const keys = new Map<string, EventKey>();
    for (const [index, event] of events.entries()) {
      if (index % PIECE === PIECE - 1) await nextTurn();
      const { id, type } = event;
      const text = json?.[index];
      const known = this.#first.get(id);
      // Most responses repeat events from an earlier response byte for byte.
      const isRepeated = known !== undefined && (known.event === event || known.json === text);
      const time = isRepeated ? known.at : createdAtMs(event);
      // A time that a `Date` cannot represent proves nothing.
      const at = Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
      if (!keys.has(id)) keys.set(id, { id, type, at });
      if (known === undefined) this.#first.set(id, { event, json: text ?? encodeEvent(event), at });
      else if (!isRepeated && !isSameElement(known.event, event)) {
        this.#conflicts.set(id, Math.max(known.at, this.#conflicts.get(id) ?? at, at));
      }
    }
    this.#malformed.push(problems);
    const unreadable: (number | null)[] = [];
    for (const { value } of problems) {
      const { type }: { readonly type?: unknown } = Object(value);
      // Events of other types are irrelevant to the proof.
      const isOther = typeof type === 'string' && type !== '' && !isEventType(type);
      if (!isOther) unreadable.push(timeOf(value));
    }
    // The elements that the client left out could be anything.
    if (size > events.length + problems.length) unreadable.push(null);
    return {
      size,
      events: keys,
      unreadable,
      servedAt: Number.isFinite(servedAt) ? (servedAt ?? null) : null,
    };
  }

  get size(): number {
    return this.#first.size;
  }

  /** `from` is in epoch ms, inclusive. */
  found(from: number): readonly ListedEvent[] {
    return [...this.#first.values()].filter(({ at }) => at >= from);
  }

  conflicts(from: number): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const [id, at] of this.#conflicts) if (at >= from) ids.add(id);
    return ids;
  }

  problems(from: number): readonly PollProblem[] {
    const problems = [...this.#failures.values()];
    let most: readonly EventProblem[] = [];
    for (const elements of this.#malformed) {
      const counted = elements.filter(({ value }) => (timeOf(value) ?? from) >= from);
      if (counted.length > most.length) most = counted;
    }
    if (most[0] !== undefined) problems.push(malformedProblem(most[0], most.length));
    const message =
      "The service's event list contains two different events with this id. The poller uses the one that it read first. Report this to the service.";
    for (const id of this.conflicts(from)) problems.push({ code: 'ERR_EVENT_CONFLICT', message, id });
    return problems;
  }
}

export async function runSurvey(list: ListReader, options: SurveyOptions): Promise<SurveyResult> {
  const survey = surveyList(options);
  let step = survey.next();
  while (!step.done) step = survey.next(await list.read(step.value));
  return step.value;
}

/** `null` unless `created_at` is an RFC 3339 date-time. `Date.parse` alone would accept other formats as well. */
function timeOf(element: unknown): number | null {
  const { created_at }: { readonly created_at?: unknown } = Object(element);
  const time = isDateTime(created_at) ? createdAtMs({ created_at }) : Number.NaN;
  return Number.isNaN(time) ? null : time;
}

/** Leaves out the ids of the elements, because an id could contain anything, even the token. */
function malformedProblem({ index, fields }: EventProblem, count: number): PollProblem {
  const which =
    count === 1
      ? `The element at index ${index} of the list is not a valid event:`
      : `${count} elements of the list are not valid events. The first is at index ${index}:`;
  const what =
    fields.length === 0 ? 'it is not an object' : `these fields are missing or invalid: ${fields.join(', ')}`;
  const message = `${which} ${what}. Malformed elements are not recorded, and a gap covers them. Report this to the service.`;
  return { code: 'ERR_EVENT_MALFORMED', message };
}
