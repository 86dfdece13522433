/** Pages: asking the list, and telling what can be read in an answer from what cannot. */
import { type EventType, encodeEvent, isEventType, type UnknownEvent } from '../core/events.js';
import type { Answer, Question } from './coverage.js';
import type { Problem } from './problem.js';

/** The part of `stablehooks/client` that the poller uses. */
export interface ListsEvents {
  readonly events: {
    /** Asks for events; a malformed element is told apart and does not hide the others. */
    page(query: {
      readonly type?: EventType | undefined;
      readonly limit: number;
      readonly signal: AbortSignal;
    }): Promise<ListPage>;
  };
}

/** One answer of the list, as the client gives it. */
export interface ListPage {
  /** In the order of the answer. */
  readonly events: readonly UnknownEvent[];
  /** The elements that are not events. */
  readonly problems: readonly UnreadableElement[];
  /** How many elements the answer had, malformed ones included. */
  readonly size: number;
  /** The service's clock (the `Date` header), epoch ms, where it is known. */
  readonly servedAt?: number | null | undefined;
}

/** An element of the list that is not an event. */
export interface UnreadableElement {
  /** Where in the answer, from 0. */
  readonly index: number;
  /** What is missing or wrong. */
  readonly fields: readonly string[];
  /** The element itself, where it is known: then its type and time tell whether it matters. */
  readonly value?: unknown;
}

/** One answer, read. */
export interface Page {
  readonly answer: Answer;
  readonly events: readonly UnknownEvent[];
  readonly problems: readonly Problem[];
}

/** Reads an answer to the question. */
export function readPage(list: ListPage, question: Question): Page {
  const unreadable = list.problems.map(({ value, fields }) => ({ value, fields }));
  const events = list.events.filter((event) => {
    if (isWritable(event)) return true;
    unreadable.push({ value: event, fields: ['payload'] });
    return false;
  });
  const marks = events.map((event) => ({ id: event.id, type: event.type, at: createdAt(event) }));
  const times = unreadable
    .map(({ value }) => value)
    .filter(mayMatter)
    .map(timeOf);
  const { size } = list;
  const servedAt = Number.isFinite(list.servedAt) ? (list.servedAt ?? null) : null;
  return {
    answer: { ...question, size, marks, unreadable: times, servedAt },
    events,
    problems: unreadable.map(malformed),
  };
}

/** When the event was created, epoch ms; infinite for a date that no clock shows, which then proves nothing. */
export function createdAt({ created_at }: UnknownEvent): number {
  const time = Date.parse(created_at);
  return Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}

/** Told now, so that an event nested too deeply to be kept does not spoil the page for the others. */
function isWritable(event: UnknownEvent): boolean {
  try {
    encodeEvent(event);
    return true;
  } catch {
    return false;
  }
}

function malformed({ value, fields }: Omit<UnreadableElement, 'index'>): Problem {
  const what = fields.length === 0 ? 'it is no object' : `these fields are wrong: ${fields.join(', ')}`;
  const id = textOf(value, 'id');
  return {
    code: 'ERR_EVENT_MALFORMED',
    message: `An element of the list is not an event: ${what}. It cannot be taken, and the watermark stays before it. Ask the service.`,
    ...(id !== undefined && { id }),
  };
}

/** Whether it may be one of the five types: the others are not vouched for. */
function mayMatter(value: unknown): boolean {
  const type = textOf(value, 'type');
  return type === undefined || isEventType(type);
}

/** A field of an element that is not an event, if it is text at all. */
function textOf(element: unknown, name: 'id' | 'type' | 'created_at'): string | undefined {
  if (typeof element !== 'object' || element === null) return undefined;
  const value: unknown = (element as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function timeOf(value: unknown): number | null {
  const time = Date.parse(textOf(value, 'created_at') ?? '');
  return Number.isNaN(time) ? null : time;
}

/**
 * Whether two events of one id say the same. `delivered` may differ: it changes as deliveries succeed.
 */
export function sameEvent(a: UnknownEvent, b: UnknownEvent): boolean {
  return sameValue({ ...a, delivered: undefined }, { ...b, delivered: undefined });
}

function sameValue(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), new Map<string, unknown>(Object.entries(b))];
  return (
    left.length === right.size &&
    left.every(([name, value]) => right.has(name) && sameValue(value, right.get(name)))
  );
}
