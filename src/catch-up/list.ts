import {
  createdAtMs,
  type EventType,
  encodeEvent,
  isDateTime,
  isEventType,
  type UnknownEvent,
} from '../core/events.js';
import type { ReceiverParts } from '../receiver/receiver.js';
import {
  type ListAnswer,
  type ListQuery,
  type SurveyOptions,
  type SurveyResult,
  surveyList,
} from './coverage.js';
import { type FoundEvent, type PollProblem, toProblem } from './report.js';
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
  /** The elements that are not events. */
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
  /** What is missing or wrong. */
  readonly fields: readonly string[];
  /** The element itself, if it is known: its type and time then show whether it matters. */
  readonly value?: unknown;
}

/** Reads the list during one poll. */
export interface ListReader {
  /** Sends a query and records the events of its answer; `null`, with a problem, when either failed. */
  read(query: ListQuery): Promise<ListAnswer | null>;
  /** By id. */
  readonly found: ReadonlyMap<string, FoundEvent>;
  /**
   * The ids with which the answers show different events, and when the events other than the first were created, epoch
   * ms.
   */
  readonly conflicts: ReadonlyMap<string, ReadonlySet<number>>;
  /** Each once, however many answers show it. */
  readonly problems: () => readonly PollProblem[];
  readonly requests: () => number;
  /** How many different events of the answers were created before the opening date. */
  readonly skipped: () => number;
  readonly clocks: () => Clocks;
}

/** When the poll started, epoch ms, as far as the service's clock is known. */
export interface Clocks {
  /** By the earlier of our clock and the service's. */
  readonly until: number;
  /** By the later one. */
  readonly latest: number;
}

/** The inbox is free for deliveries between two batches. */
const RECORD_BATCH = 500;

export function createListReader({
  client,
  record: recordPage,
  leaseMs,
  lagMs,
  startedAt,
  takeFrom,
  signal,
}: {
  readonly client: PollerClient;
  readonly record: ReceiverParts['record'];
  readonly leaseMs: number;
  readonly lagMs: number;
  /** When the poll started, epoch ms. */
  readonly startedAt: number;
  /** Events created before this are skipped. */
  readonly takeFrom: (clocks: Clocks) => number;
  readonly signal: AbortSignal;
}): ListReader {
  const found = new Map<string, FoundEvent>();
  const skipped = new Set<string>();
  const problems = new Map<string, PollProblem>();
  const conflicts = new Map<string, Set<number>>();
  let clocks: Clocks = { until: startedAt, latest: startedAt };
  let requests = 0;

  const addProblem = (problem: PollProblem) => problems.set(JSON.stringify(problem), problem);

  async function read(query: ListQuery): Promise<ListAnswer | null> {
    if (signal.aborted) return null;
    try {
      requests += 1;
      const { type, limit } = query;
      const list = await client.events.listWithProblems({ ...(type !== null && { type }), limit, signal });
      const { answer, events, malformed } = readAnswer(list, query);
      // Without the service's clock, ours can be ahead of it by `lagMs`.
      clocks = {
        until: Math.min(clocks.until, answer.servedAt ?? startedAt - lagMs),
        latest: Math.max(clocks.latest, answer.servedAt ?? startedAt),
      };
      const from = takeFrom(clocks);
      for (const element of malformed) {
        if ((timeOf(element.value) ?? from) >= from) addProblem(malformedProblem(element));
      }
      for (const event of events) if (createdAt(event) < from) skipped.add(event.id);
      await record(events.filter((event) => createdAt(event) >= from));
      return answer;
    } catch (error) {
      if (!signal.aborted) addProblem(toProblem(error, { code: 'ERR_API_RESPONSE' }));
      return null;
    }
  }

  async function record(events: readonly UnknownEvent[]): Promise<void> {
    const unrecorded = new Map<string, UnknownEvent>();
    for (const event of events) {
      const first = found.get(event.id)?.event ?? unrecorded.get(event.id);
      if (first === undefined) unrecorded.set(event.id, event);
      else if (!isSameElement(first, event)) {
        addProblem(conflictProblem(event));
        conflicts.set(event.id, (conflicts.get(event.id) ?? new Set()).add(createdAt(event)));
      }
    }
    const all = [...unrecorded.values()];
    for (let from = 0; from < all.length && !signal.aborted; from += RECORD_BATCH) {
      const batch = all.slice(from, from + RECORD_BATCH);
      // Not due before our lease to poll could lapse, so so no process redrives what this poll is about to dispatch.
      const results = await recordPage(batch, { dueInMs: leaseMs, origin: 'pull' });
      for (const [index, event] of batch.entries()) {
        const result = results[index];
        if (result !== undefined) found.set(event.id, { event, at: createdAt(event), result });
      }
    }
    signal.throwIfAborted();
  }

  return {
    read,
    found,
    conflicts,
    problems: () => [...problems.values()],
    requests: () => requests,
    skipped: () => skipped.size,
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

function readAnswer(
  list: ListedEvents,
  query: ListQuery,
): {
  readonly answer: ListAnswer;
  readonly events: readonly UnknownEvent[];
  readonly malformed: readonly Omit<MalformedElement, 'index'>[];
} {
  const malformed: Omit<MalformedElement, 'index'>[] = [...list.problems];
  const events = list.events.filter((event) => {
    if (isWritable(event)) return true;
    malformed.push({ value: event, fields: ['payload'] });
    return false;
  });
  const answer = {
    ...query,
    size: list.size,
    events: events.map((event) => ({ id: event.id, type: event.type, at: createdAt(event) })),
    unreadable: malformed
      .map(({ value }) => value)
      .filter(canBeKnownType)
      .map(timeOf),
    servedAt: Number.isFinite(list.servedAt) ? (list.servedAt ?? null) : null,
  };
  return { answer, events, malformed };
}

/** Epoch ms; infinite for a date that no clock shows, which then proves nothing. */
function createdAt(event: UnknownEvent): number {
  const time = createdAtMs(event);
  return Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}

/** Checked before the batch is recorded: one event that is nested too deeply would make the whole batch fail. */
function isWritable(event: UnknownEvent): boolean {
  try {
    encodeEvent(event);
    return true;
  } catch {
    return false;
  }
}

/** Events of other types do not matter to the proof. */
function canBeKnownType(element: unknown): boolean {
  const type = stringField(element, 'type');
  return type === undefined || isEventType(type);
}

/**
 * When it was created, epoch ms; `null` for what is no RFC 3339 date-time: `Date.parse` reads a date alone, a time without
 * an offset and `0`, too, and what it makes of them is not when the event was created.
 */
function timeOf(element: unknown): number | null {
  const text = stringField(element, 'created_at');
  if (text === undefined || !isDateTime(text)) return null;
  const time = createdAtMs({ created_at: text });
  return Number.isNaN(time) ? null : time;
}

/** A field of an element that is not an event, if it is a string that is not empty. */
function stringField(element: unknown, name: 'id' | 'type' | 'created_at'): string | undefined {
  if (typeof element !== 'object' || element === null) return undefined;
  const value: unknown = (element as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function malformedProblem({ value, fields }: Omit<MalformedElement, 'index'>): PollProblem {
  const what =
    fields.length === 0 ? 'It is not an object.' : `These fields are missing or wrong: ${fields.join(', ')}.`;
  const id = stringField(value, 'id');
  return {
    code: 'ERR_EVENT_MALFORMED',
    message: `An element of the list is not an event. ${what} It is not recorded, and a gap contains it. Report it to the service.`,
    ...(id !== undefined && { id }),
  };
}

function conflictProblem({ id }: UnknownEvent): PollProblem {
  const message =
    'The list contains two different events with this id. The first one is used. Report it to the service.';
  return { code: 'ERR_EVENT_CONFLICT', message, id };
}
