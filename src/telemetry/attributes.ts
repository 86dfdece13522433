/** The names of spans, and the attributes of spans and metrics: made once for each operation, type and outcome. */
import { type Attributes, SpanKind } from '@opentelemetry/api';
import { isEventType, type UnknownEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';
import type { Outcome } from '../receiver/outcome.js';

/** The steps as the semantic conventions for messaging (1.45.0) sort them. */
export const OPERATIONS = {
  receive: { kind: SpanKind.CONSUMER, type: 'receive' },
  claim: { kind: SpanKind.CLIENT, type: 'receive' },
  handler: { kind: SpanKind.CONSUMER, type: 'process' },
  complete: { kind: SpanKind.CLIENT, type: 'settle' },
  fail: { kind: SpanKind.CLIENT, type: 'settle' },
  record: { kind: SpanKind.CLIENT, type: 'create' },
  ignore: { kind: SpanKind.CLIENT, type: 'create' },
  enqueue: { kind: SpanKind.PRODUCER, type: 'send' },
  redrive: { kind: SpanKind.INTERNAL, type: 'receive' },
  poll: { kind: SpanKind.CLIENT, type: 'receive' },
} as const;

export type Operation = keyof typeof OPERATIONS;

/** The value for everything that is not one of a few known values, as for `http.request.method` in the conventions. */
export const OTHER = '_OTHER';

/** The attributes of one step. */
export interface StepAttributes {
  /** The name of the span. */
  readonly name: string;
  readonly metric: Attributes;
  /** Those of the span when it starts. */
  readonly span: Attributes;
}

export class AttributeCache {
  readonly #common: Attributes;
  readonly #steps = new Map<Operation, Map<string | undefined, StepAttributes>>();
  readonly #outcomes = new Map<Origin, Map<string | undefined, Map<string, Attributes>>>();
  readonly #secrets: Attributes[] = [];

  /** @param common - the attributes of every span and metric. */
  constructor(common: Attributes) {
    this.#common = common;
  }

  step(operation: Operation, event: UnknownEvent | undefined): StepAttributes {
    const byType = inner(this.#steps, operation);
    const type = event && knownType(event);
    let step = byType.get(type);
    if (step === undefined) byType.set(type, (step = this.#makeStep(operation, type)));
    return step;
  }

  #makeStep(operation: Operation, type: string | undefined): StepAttributes {
    const metric = {
      ...this.#common,
      ...(type !== undefined && { 'stablehooks.event.type': type }),
      'messaging.operation.name': operation,
    };
    const span = { ...metric, 'messaging.operation.type': OPERATIONS[operation].type };
    const name = type === undefined || type === OTHER ? operation : `${operation} ${type}`;
    return { name, metric, span };
  }

  outcome({ kind, origin, event, error }: Outcome): Attributes {
    const type = event && knownType(event);
    const byEnd = inner(inner(this.#outcomes, origin), type);
    const end = error === undefined ? kind : `${kind} ${error.code}`;
    let attributes = byEnd.get(end);
    if (attributes === undefined) {
      attributes = {
        ...this.#common,
        'stablehooks.outcome': kind,
        'stablehooks.origin': origin,
        ...(type !== undefined && { 'stablehooks.event.type': type }),
        ...(error !== undefined && { 'error.type': error.code }),
      };
      byEnd.set(end, attributes);
    }
    return attributes;
  }

  secret(index: number): Attributes {
    return (this.#secrets[index] ??= { ...this.#common, 'stablehooks.secret.index': index });
  }
}

/** The map of a key. One map for all keys would need a string of them for each look-up. */
function inner<Key, InnerKey, Value>(maps: Map<Key, Map<InnerKey, Value>>, key: Key): Map<InnerKey, Value> {
  let found = maps.get(key);
  if (found === undefined) maps.set(key, (found = new Map()));
  return found;
}

/** The service can add types, and a metric must not grow with them. */
export function knownType({ type }: UnknownEvent): string {
  return isEventType(type) ? type : OTHER;
}

/** The code of an error, such as `ERR_HANDLER_FAILED`, `ECONNREFUSED` or `57P01`. */
export function errorType(error: unknown): string {
  try {
    const { code } = error as { readonly code?: unknown };
    return typeof code === 'string' && /^[A-Z\d_]{2,40}$/.test(code) ? code : OTHER;
  } catch {
    return OTHER;
  }
}
