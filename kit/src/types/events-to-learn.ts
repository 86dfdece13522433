import {
  createdAtMs,
  EVENT_TYPES,
  INBOX_STATES,
  parseEvent,
  StablehooksError,
  type UnknownEvent,
} from 'stablehooks';
import type { Client } from 'stablehooks/client';
import { usageError } from '../io/errors.js';
import { describeConflicts, describeCut, withoutCopies } from '../io/event-list.js';
import type { OpenInbox } from '../io/inbox.js';
import { countOf } from '../io/output.js';
import { recordsOf } from '../io/records-of.js';

/** Events, and notes about elements that cannot be learned from. */
export interface FoundEvents {
  readonly events: readonly UnknownEvent[];
  /** In plain words, such as a note that a list was cut. */
  readonly notes: readonly string[];
  /** How many elements were not events. */
  readonly malformed: number;
}

/**
 * Requests the newest events of each type from the service, so a frequent type does not hide a rare one.
 *
 * @param limit - how many of each type.
 */
export async function listEvents(
  client: Client,
  { limit, signal }: { readonly limit: number; readonly signal: AbortSignal },
): Promise<FoundEvents> {
  const found: UnknownEvent[] = [];
  const notes: string[] = [];
  let malformed = 0;
  for (const type of EVENT_TYPES) {
    const page = await client.events.listWithProblems({ type, limit, signal });
    found.push(...page.events);
    malformed += page.problems.length;
    const cut = describeCut(page.size, limit, `${type} event`);
    if (cut !== undefined) notes.push(cut);
  }
  // Each of the different events with one id is learned and checked.
  const { events, others } = withoutCopies(found);
  const ids = new Set(others.map(({ id }) => id));
  if (ids.size > 0) notes.push(describeConflicts([...ids]));
  return { events: [...events, ...others], notes, malformed };
}

/** Reads the events of an inbox, of every state. */
export async function inboxEvents(inbox: OpenInbox, signal: AbortSignal): Promise<FoundEvents> {
  const events: UnknownEvent[] = [];
  let pruned = 0;
  for (const state of INBOX_STATES) {
    for await (const { event } of recordsOf(inbox, state)) {
      if (signal.aborted) break;
      if (event === null) pruned += 1;
      else events.push(event);
    }
  }
  const notes =
    pruned === 0
      ? []
      : [`${countOf(pruned, 'pruned event')} of the inbox cannot be learned: the payload is deleted.`];
  return { events, notes, malformed: 0 };
}

/**
 * Reads a JSON array of events, or one event per line.
 *
 * @param name - the name of the text in messages.
 * @throws {CommandError} exit 2 when an element is not an event; the message names its place and never its content.
 */
export function parseEvents(bytes: Uint8Array, name: string): FoundEvents {
  const text = new TextDecoder().decode(bytes);
  const elements = parseJson(text) ?? toLines(text, name);
  const events = elements.map(({ place, value }) => {
    try {
      return parseEvent(Buffer.from(JSON.stringify(value))).event;
    } catch (cause) {
      if (!(cause instanceof StablehooksError)) throw cause;
      throw usageError(`${name}, ${place}: ${cause.message}`, { cause });
    }
  });
  return { events, notes: [], malformed: 0 };
}

interface Element {
  readonly place: string;
  readonly value: unknown;
}

/** The elements of the array; `undefined` when the text is not one JSON array. */
function parseJson(text: string): readonly Element[] | undefined {
  const value = tryParse(text);
  if (!Array.isArray(value)) return undefined;
  return value.map((element: unknown, index) => ({ place: `element ${index + 1}`, value: element }));
}

function toLines(text: string, name: string): readonly Element[] {
  return text
    .split('\n')
    .map((line, index) => ({ line: line.trim(), place: `line ${index + 1}` }))
    .filter(({ line }) => line !== '')
    .map(({ line, place }) => {
      const value = tryParse(line);
      if (value !== undefined) return { place, value };
      throw usageError(
        `${name}, ${place}: this is not JSON. Pass a JSON array of events, or one event per line.`,
      );
    });
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The events created since then. */
export function createdSince(
  events: readonly UnknownEvent[],
  since: Date | undefined,
): readonly UnknownEvent[] {
  return since === undefined ? events : events.filter((event) => createdAtMs(event) >= since.getTime());
}
