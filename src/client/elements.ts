import { type UnknownEvent, wrongFields } from '../core/events.js';
import { nextTurn } from '../core/runtime.js';

/** An element of the event list that isn't a valid event. */
export interface EventProblem {
  /** The position of the element in the response, starting at 0. */
  readonly index: number;
  /** The names of the missing or invalid fields; empty if the element is not an object. */
  readonly fields: readonly string[];
  /** The element itself. This value can contain a payload, so be careful where you log it. */
  readonly value: unknown;
}

/** The elements of a list, divided into events and malformed elements. */
export interface Elements {
  /** The events in the order of the response. The service doesn't specify that order. */
  readonly events: readonly UnknownEvent[];
  /** Each event's JSON as the service wrote it, in the order of `events`. */
  readonly json: readonly string[];
  readonly problems: readonly EventProblem[];
  /** The number of elements in the response, including malformed elements. */
  readonly size: number;
}

/** JSON allows only these four white-space characters. */
const NOT_BLANK = /[^ \t\n\r]/;

/** How many elements or characters to read before yielding to other work. */
const PIECE = { elements: 1_000, characters: 1_000_000 };

/** Returns `null` if the JSON isn't an array, and often yields to other work. */
export async function readElements(text: string): Promise<Elements | null> {
  const begin = text.search(NOT_BLANK);
  if (text[begin] !== '[') {
    JSON.parse(text);
    return null;
  }
  const events: UnknownEvent[] = [];
  const json: string[] = [];
  const problems: EventProblem[] = [];
  let size = 0;
  let pausedAt = 0;
  let end = begin;
  for (let start = begin + 1; text[end] !== ']'; start = end + 1) {
    end = endOfElement(text, start);
    const element = text.slice(start, end);
    if (size === 0 && text[end] === ']' && !NOT_BLANK.test(element)) break;
    const value: unknown = JSON.parse(element);
    const fields = wrongFields(value);
    if (fields === null) {
      events.push(value as UnknownEvent);
      // A copy, because a slice would keep the whole response in memory for as long as an inbox keeps one of its events.
      json.push(` ${element.trim()}`.slice(1));
    } else problems.push({ index: size, fields, value });
    size += 1;
    if (size % PIECE.elements === 0 || end - pausedAt > PIECE.characters) {
      await nextTurn();
      pausedAt = end;
    }
  }
  if (NOT_BLANK.test(text.slice(end + 1))) throw new SyntaxError('Something follows the list.');
  return { events, json, problems, size };
}

/** Returns the position of the comma or bracket after the element. */
function endOfElement(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at);
    else if (character === '[' || character === '{') depth += 1;
    else if (depth === 0 && (character === ',' || character === ']')) return at;
    else if (character === ']' || character === '}') depth -= 1;
  }
  throw new SyntaxError('The closing bracket of the list is missing.');
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === '"') return at;
    if (text[at] === '\\') at += 1;
  }
  return text.length;
}
