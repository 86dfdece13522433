import {
  createdAtMs,
  type EventType,
  encodeEvent,
  isDateTime,
  isEventType,
  type UnknownEvent,
} from '../core/events.js';
import {
  type ListAnswer,
  type ListQuery,
  type SurveyOptions,
  type SurveyResult,
  surveyList,
} from './coverage.js';
import { type PollProblem, toProblem } from './problems.js';
import { isSameElement } from './same-event.js';

/** The part of a client of `stablehooks/client` that the poller uses. */
export interface PollerClient {
  readonly events: {
    /** Lists events. Malformed elements are reported apart and do not prevent the others. */
    listWithProblems(query: {
      readonly type?: EventType | undefined;
      readonly limit: number;
      readonly signal: AbortSignal;
    }): Promise<ListedEvents>;
  };
}

/** One answer of the list, as the client returns it. */
export interface ListedEvents {
  /** In the order of the answer. */
  readonly events: readonly UnknownEvent[];
  /** The JSON of each event as the service wrote it, in the same order. @default the events serialized */
  readonly json?: readonly string[] | undefined;
  /** The elements that are not events, or the first 1,000 of them. */
  readonly problems: readonly MalformedElement[];
  /** How many elements the answer has, malformed ones included. */
  readonly size: number;
  /** The service's clock (the `Date` header), epoch ms, if it is known. */
  readonly servedAt?: number | null | undefined;
}

/** An element of the list that is not an event. */
export interface MalformedElement {
  /** Its position in the answer, from 0. */
  readonly index: number;
  /** The names of the fields that are missing or wrong. */
  readonly fields: readonly string[];
  /** The element itself, if it is known: its type and time then show whether it matters. */
  readonly value?: unknown;
}

/** An event of the list. */
export interface ListedEvent {
  readonly event: UnknownEvent;
  /** Its JSON as the service wrote it. */
  readonly json: string;
  /** When it was created, epoch ms. */
  readonly at: number;
}

/** Reads the list during one poll. */
export interface ListReader {
  /** Sends a query; `null`, with a problem, when it failed. */
  read(query: ListQuery): Promise<ListAnswer | null>;
  /** The events created from this time on, epoch ms, by id: the first one that the answers show with it. */
  readonly found: (from: number) => ReadonlyMap<string, ListedEvent>;
  /** How many ids the answers show. */
  readonly size: () => number;
  /** Further events that the answers show with an id, and that are not the same as the first one. */
  readonly conflicts: ReadonlyMap<string, readonly ListedEvent[]>;
  /** Those about events leave out events and elements created before this time, epoch ms. */
  readonly problems: (from: number) => readonly PollProblem[];
  readonly requests: () => number;
  readonly clocks: () => Clocks;
}

/** When the poll started, epoch ms, as far as the service's clock is known. */
export interface Clocks {
  /** By the earlier of our clock and the service's. */
  readonly until: number;
  /** By the later one. */
  readonly latest: number;
}

/** So many different events with one id are kept. */
const MAX_CONFLICTS = 100;

export function createListReader({
  client,
  lagMs,
  startedAt,
  signal,
}: {
  readonly client: PollerClient;
  readonly lagMs: number;
  /** When the poll started, epoch ms. */
  readonly startedAt: number;
  readonly signal: AbortSignal;
}): ListReader {
  const first = new Map<string, ListedEvent>();
  const failures: PollProblem[] = [];
  const conflicts = new Map<string, ListedEvent[]>();
  const malformed: (readonly MalformedElement[])[] = [];
  let clocks: Clocks = { until: startedAt, latest: startedAt };
  let requests = 0;

  async function read(query: ListQuery): Promise<ListAnswer | null> {
    if (signal.aborted) return null;
    requests += 1;
    let list: ListedEvents;
    try {
      const { type, limit } = query;
      list = await client.events.listWithProblems({ ...(type !== null && { type }), limit, signal });
    } catch (error) {
      if (!signal.aborted) failures.push(toProblem(error, { code: 'ERR_API_RESPONSE' }));
      return null;
    }
    const { events, elements, servedAt } = readAnswer(list);
    // Without the service's clock, ours can be ahead of it by `lagMs`.
    clocks = {
      until: Math.min(clocks.until, servedAt ?? startedAt - lagMs),
      latest: Math.max(clocks.latest, servedAt ?? startedAt),
    };
    malformed.push(elements);
    for (const listed of events) {
      const { id } = listed.event;
      const known = first.get(id);
      const others = conflicts.get(id) ?? [];
      if (known === undefined) first.set(id, listed);
      else if (![known, ...others].some(({ event }) => isSameElement(event, listed.event))) {
        conflicts.set(id, [...others, listed].slice(0, MAX_CONFLICTS));
      }
    }
    const unreadable = elements
      .filter(({ value }) => canBeKnownType(value))
      .map(({ value }) => timeOf(value));
    // Elements that the client did not keep can be anything.
    if (list.size > list.events.length + list.problems.length) unreadable.push(null);
    return {
      ...query,
      size: list.size,
      events: events.map(({ event: { id, type }, at }) => ({ id, type, at })),
      unreadable,
      servedAt,
    };
  }

  function found(from: number): ReadonlyMap<string, ListedEvent> {
    const all = new Map<string, ListedEvent>();
    for (const [id, listed] of first) {
      const taken = [listed, ...(conflicts.get(id) ?? [])].find(({ at }) => at >= from);
      if (taken !== undefined) all.set(id, taken);
    }
    return all;
  }

  function problems(from: number): readonly PollProblem[] {
    const taken = found(from);
    const counted = malformed.map((elements) =>
      elements.filter(({ value }) => (timeOf(value) ?? from) >= from),
    );
    const most = counted.reduce((one, other) => (other.length > one.length ? other : one), []);
    return [
      ...new Map(failures.map((problem) => [JSON.stringify(problem), problem])).values(),
      ...malformedProblems(most),
      ...[...conflicts.keys()].filter((id) => taken.has(id)).map(conflictProblem),
    ];
  }

  return {
    read,
    found,
    size: () => first.size,
    conflicts,
    problems,
    requests: () => requests,
    clocks: () => clocks,
  };
}

/** Surveys the list by reading it. */
export async function runSurvey(list: ListReader, options: SurveyOptions): Promise<SurveyResult> {
  const survey = surveyList(options);
  let step = survey.next();
  while (!step.done) step = survey.next(await list.read(step.value));
  return step.value;
}

function readAnswer(list: ListedEvents): {
  readonly events: readonly ListedEvent[];
  readonly elements: readonly MalformedElement[];
  readonly servedAt: number | null;
} {
  const elements: MalformedElement[] = [...list.problems];
  const events = list.events.flatMap((event, index) => {
    const json = list.json?.[index] ?? serialize(event);
    if (json === null) elements.push({ index, value: event, fields: ['payload'] });
    return json === null ? [] : [{ event, json, at: createdAt(event) }];
  });
  const servedAt = Number.isFinite(list.servedAt) ? (list.servedAt ?? null) : null;
  return { events, elements, servedAt };
}

/** Epoch ms; infinite for a date that no clock shows, which then proves nothing. */
function createdAt(event: UnknownEvent): number {
  const time = createdAtMs(event);
  return Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}

/** `null` for an event that cannot be serialized, such as one that is nested too deeply. */
function serialize(event: UnknownEvent): string | null {
  try {
    return encodeEvent(event);
  } catch {
    return null;
  }
}

/** Events of other types do not matter to the proof. */
function canBeKnownType(element: unknown): boolean {
  const type = stringField(element, 'type');
  return type === undefined || isEventType(type);
}

/**
 * When it was created, epoch ms; `null` for what is no RFC 3339 date-time: `Date.parse` reads a date alone, a time without
 * an offset and `0` as well, and returns another time than the event's.
 */
function timeOf(element: unknown): number | null {
  const text = stringField(element, 'created_at');
  if (text === undefined || !isDateTime(text)) return null;
  const time = createdAtMs({ created_at: text });
  return Number.isNaN(time) ? null : time;
}

/** A field of an element that is not an event, if it is a string that is not empty. */
function stringField(element: unknown, name: 'type' | 'created_at'): string | undefined {
  if (typeof element !== 'object' || element === null) return undefined;
  const value: unknown = (element as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** One problem for all of them, without their ids: these can be anything, even the token. */
function malformedProblems(elements: readonly MalformedElement[]): readonly PollProblem[] {
  const [first] = elements;
  if (first === undefined) return [];
  const { index, fields } = first;
  const what =
    fields.length === 0 ? 'it is not an object' : `these fields are missing or wrong: ${fields.join(', ')}`;
  const which =
    elements.length === 1
      ? `An element of the list, at index ${index}, is not an event:`
      : `${elements.length} elements of the list are not events. The first one is at index ${index}:`;
  const message = `${which} ${what}. It is not recorded, and a gap contains it. Report it to the service.`;
  return [{ code: 'ERR_EVENT_MALFORMED', message }];
}

function conflictProblem(id: string): PollProblem {
  const message =
    'The list contains two different events with this id. The first one is used. Report it to the service.';
  return { code: 'ERR_EVENT_CONFLICT', message, id };
}
