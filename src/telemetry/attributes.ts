/** The names of spans, and the attributes of spans and metrics, created once per operation, type and outcome. */
import { type Attributes, SpanKind } from '@opentelemetry/api';
import { isEventType, type UnknownEvent } from '../core/events.js';
import type { Origin } from '../core/ports.js';
import type { Outcome } from '../receiver/outcome.js';

/** The steps by the semantic conventions for messaging (1.45.0), and the histogram of each. */
export const OPERATIONS = {
  receive: { kind: SpanKind.CONSUMER, type: 'receive', duration: undefined },
  claim: { kind: SpanKind.CLIENT, type: 'receive', duration: 'operationDuration' },
  handler: { kind: SpanKind.CONSUMER, type: 'process', duration: 'processDuration' },
  complete: { kind: SpanKind.CLIENT, type: 'settle', duration: 'operationDuration' },
  fail: { kind: SpanKind.CLIENT, type: 'settle', duration: 'operationDuration' },
  record: { kind: SpanKind.CLIENT, type: 'create', duration: 'operationDuration' },
  ignore: { kind: SpanKind.CLIENT, type: 'create', duration: 'operationDuration' },
  enqueue: { kind: SpanKind.PRODUCER, type: 'send', duration: 'operationDuration' },
  redrive: { kind: SpanKind.INTERNAL, type: 'receive', duration: undefined },
  poll: { kind: SpanKind.CLIENT, type: 'receive', duration: undefined },
} as const;

export type Operation = keyof typeof OPERATIONS;

/** The value in place of rare values, as for `http.request.method` in the conventions. */
export const OTHER = '_OTHER';

export interface StepAttributes {
  readonly name: string;
  readonly metric: Attributes;
  /** The attributes of the span at its start. */
  readonly span: Attributes;
}

export class AttributeCache {
  /** The attributes of every span and metric. */
  readonly common: Attributes;
  readonly #steps = new Map<Operation, Map<string | undefined, StepAttributes>>();
  readonly #outcomes = new Map<Origin, Map<string | undefined, Map<string, Attributes>>>();
  readonly #secrets = new Map<number, Attributes>();

  constructor(common: Attributes) {
    this.common = common;
  }

  step(operation: Operation, event: UnknownEvent | undefined): StepAttributes {
    const byType = inner(this.#steps, operation);
    const type = event && knownType(event);
    return orMade(byType, type, () => this.#makeStep(operation, type));
  }

  #makeStep(operation: Operation, type: string | undefined): StepAttributes {
    const metric = {
      ...this.common,
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
    return orMade(byEnd, error === undefined ? kind : `${kind} ${error.code}`, () => ({
      ...this.common,
      'stablehooks.outcome': kind,
      'stablehooks.origin': origin,
      ...(type !== undefined && { 'stablehooks.event.type': type }),
      ...(error !== undefined && { 'error.type': error.code }),
    }));
  }

  secret(index: number): Attributes {
    return orMade(this.#secrets, index, () => ({ ...this.common, 'stablehooks.secret.index': index }));
  }
}

/** The map of a key. Nested maps are faster than one map with joined keys. */
function inner<Key, InnerKey, Value>(maps: Map<Key, Map<InnerKey, Value>>, key: Key): Map<InnerKey, Value> {
  return orMade(maps, key, () => new Map());
}

function orMade<Key, Value>(values: Map<Key, Value>, key: Key, make: () => Value): Value {
  const found = values.get(key);
  if (found !== undefined) return found;
  const made = make();
  values.set(key, made);
  return made;
}

/** The type, or {@link OTHER}: the service can add types, and the number of time series must not grow with them. */
function knownType({ type }: UnknownEvent): string {
  return isEventType(type) ? type : OTHER;
}

/** The code of an error, such as `ERR_HANDLER_FAILED`, `ECONNREFUSED` or `57P01`. */
export function errorType(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /^[A-Z\d_]{2,40}$/.test(code) ? code : OTHER;
}
