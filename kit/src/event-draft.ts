/** An event in the making: an example of its type, with what the flags set in it. */
import type { EventType, UnknownEvent } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { usageError } from './failure.js';
import { isObject, readPayload } from './payload-file.js';

/** What flags say about an event. */
export interface Draft {
  readonly type: EventType;
  /** A JSON file whose object replaces the example's payload. */
  readonly payloadFile: string | undefined;
  /** `path=text` or `path:=json`, as in `payload.amount=10.50`. */
  readonly assignments: readonly string[];
}

type Json = Record<string, unknown>;

/** Makes events of the draft, each with an id of its own unless `id` is set. */
export async function readDraft({ type, payloadFile, assignments }: Draft): Promise<() => UnknownEvent> {
  const base = payloadFile === undefined ? exampleEvent(type).payload : await readPayload(payloadFile);
  const apply = assignments.map(parseAssignment);
  return () => {
    const event: Json = {
      ...exampleEvent(type, { created_at: new Date().toISOString() }),
      payload: structuredClone(base),
    };
    for (const assign of apply) assign(event);
    return event as unknown as UnknownEvent;
  };
}

/** Reads one `--set`. Amounts are text in this service, so `=` sets text and `:=` sets JSON. */
function parseAssignment(assignment: string): (event: Json) => void {
  const [, path = '', operator, text = ''] = /^([\w.-]+?)(:?=)(.*)$/s.exec(assignment) ?? [];
  const names = path.split('.');
  const root = names[0] ?? '';
  // Only the payload has parts, and is other than text.
  const settable = root === 'payload' || (SETTABLE.has(path) && operator === '=');
  if (!settable || operator === undefined || names.includes('__proto__') || names.includes('')) {
    throw usageError('--set takes payload.NAME=TEXT, payload.NAME:=JSON, id=TEXT or created_at=TEXT.');
  }
  const value = operator === '=' ? text : parseJson(text);
  return (event) => {
    const last = names.at(-1) ?? '';
    let at = event;
    for (const name of names.slice(0, -1)) {
      const next = at[name];
      const child = isObject(next) ? next : {};
      at[name] = child;
      at = child;
    }
    at[last] = value;
  };
}

/** What is set whole, as text. */
const SETTABLE: ReadonlySet<string> = new Set(['id', 'created_at']);

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw usageError('--set NAME:=JSON: what follows := is not JSON. For text, write NAME=TEXT.');
  }
}
