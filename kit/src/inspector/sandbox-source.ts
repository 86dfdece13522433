import { EVENT_TYPES } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { answerOf } from '../sandbox/answer.js';
import { bytesOf, KEPT_RESPONSE_BYTES } from '../sandbox/deliveries.js';
import type { Attempt, Delivery, Sandbox, SandboxOperations } from '../sandbox/index.js';
import { SandboxError } from '../sandbox/validation.js';
import {
  type AttemptDetail,
  type DroppedEvents,
  MAX_MOVEMENTS,
  type Message,
  type ServiceReport,
  type StreamEntry,
} from './api.js';
import { createAttemptEvents, isOwn, type KeptAttempt, toResult } from './attempt-events.js';
import type { DeliveriesPart, InspectorSource } from './source.js';

/** Creates a source that shows the deliveries, movements and settings of a sandbox in this process. */
export function fromSandbox(sandbox: Sandbox): InspectorSource {
  return {
    name: 'sandbox',
    deliveries: createDeliveriesPart(sandbox),
    service: sandbox,
    subscribe: (listener) =>
      sandbox.subscribe(({ kind, data }) => {
        for (const entry of toEntries(kind, data)) listener(entry);
      }),
  };
}

function createDeliveriesPart(sandbox: Sandbox): DeliveriesPart {
  function find(id: string): Attempt | undefined {
    return sandbox.attempts().findLast((attempt) => toKept(attempt).row.id === id);
  }
  return {
    ...createAttemptEvents({
      attempts: () => sandbox.attempts(),
      toKept,
      pending: () => new Set(sandbox.deliveries({ state: 'pending' }).map(({ eventId }) => eventId)),
      dropped: () => countDropped(sandbox),
    }),
    now: () => sandbox.clock.now(),
    async find(id) {
      const attempt = find(id);
      return attempt && toDetail(sandbox, attempt);
    },
    async resend(id, { url, body }) {
      const attempt = find(id);
      if (attempt === undefined) {
        throw new SandboxError(
          'ERR_SANDBOX_NOT_FOUND',
          'This attempt is no longer available. Resend a newer one.',
        );
      }
      const { deliveryId, request, faults } = attempt;
      // A fault changed these bytes after the sandbox had signed them, but a resent delivery must have no faults.
      const own = faults.includes('reserialise') ? undefined : bytesOf(request);
      const resent = await sandbox.resend(deliveryId, { url: url ?? request.url, body: body ?? own });
      return toKept(resent).row;
    },
  };
}

function countDropped(sandbox: Sandbox): DroppedEvents {
  const own = sandbox.attempts().filter((attempt) => isOwn(toKept(attempt)));
  const kept = new Set(own.map(({ eventId, endpointId }) => `${eventId} ${endpointId}`));
  const endpoints = new Set(sandbox.endpoints.list().map(({ id }) => id));
  const others = sandbox
    .deliveries()
    .filter(({ eventId, endpointId }) => endpoints.has(endpointId) && !kept.has(`${eventId} ${endpointId}`));
  const countOf = (...states: readonly Delivery['state'][]) => {
    const pairs = others.filter(({ state }) => states.includes(state));
    return new Map(pairs.map(({ eventId, endpointId }) => [`${eventId} ${endpointId}`, eventId]));
  };
  const [pending, delivered] = [countOf('pending'), countOf('delivered')];
  // If a delivery was repeated, only its success counts.
  const exhausted = new Set(
    [...countOf('exhausted')].flatMap(([pair, id]) => (delivered.has(pair) || pending.has(pair) ? [] : id)),
  );
  return {
    exhausted: exhausted.size,
    delivered: new Set([...delivered.values()].filter((id) => !exhausted.has(id))).size,
    unattempted: new Set(pending.values()).size,
  };
}

/** Each attempt is read only once, because its response must be parsed to find the outcome. */
const read = new WeakMap<Attempt, KeptAttempt>();

function toKept(attempt: Attempt): KeptAttempt {
  const known = read.get(attempt);
  if (known !== undefined) return known;
  const { deliveryId, number, eventId, type, edited, elsewhere, startedAt, request, response, faults } =
    attempt;
  const id = `${deliveryId}.${number}${faults.includes('duplicate') ? '.duplicate' : ''}`;
  const kept = {
    row: {
      ...{ id, at: startedAt, eventId, type, edited, elsewhere, endpoint: request.url, attempt: number },
      ...toResult(answerOf(attempt)),
      faults,
    },
    at: Date.parse(startedAt),
    bodies: () => [request.body, response?.body ?? ''],
  };
  read.set(attempt, kept);
  return kept;
}

async function toDetail(sandbox: Sandbox, attempt: Attempt): Promise<AttemptDetail> {
  const { request, response, error } = attempt;
  return {
    ...toKept(attempt).row,
    request: { ...toMessage(request), method: request.method, url: request.url },
    response: response && {
      ...toMessage(response),
      status: response.status,
      // A response that is exactly as long as the limit for kept responses was probably longer.
      cut:
        bytesOf(response).length === KEPT_RESPONSE_BYTES &&
        response.headers['content-length'] !== String(KEPT_RESPONSE_BYTES),
    },
    error,
    verdict: await sandbox.explain(attempt),
  };
}

function toMessage({ headers, ...body }: NonNullable<Attempt['response']> | Attempt['request']): Message {
  return { headers, body: Buffer.from(bytesOf(body)).toString('base64') };
}

const EXAMPLES = Object.fromEntries(EVENT_TYPES.map((type) => [type, exampleEvent(type).payload]));

export function reportService(sandbox: SandboxOperations): ServiceReport {
  return {
    movements: sandbox.movements({ limit: MAX_MOVEMENTS }),
    endpoints: sandbox.endpoints.list(),
    faults: sandbox.faults.get(),
    clock: toClock(sandbox),
    examples: EXAMPLES,
  };
}

export function toClock({ clock }: SandboxOperations): ServiceReport['clock'] {
  return { mode: clock.mode, now: new Date(clock.now()).toISOString() };
}

const SANDBOX_ENTRY = /^(movement|endpoint|faults|clock)\./;

function* toEntries(kind: string, data: unknown): Generator<StreamEntry> {
  const isReset = kind === 'sandbox.reset';
  if (kind === 'attempt.made' || isReset) yield { kind: 'changed', view: 'events' };
  // If the fault occurs only a limited number of times, one fewer remains.
  const hasFaults = kind === 'attempt.made' && (data as Attempt).faults.length > 0;
  if (hasFaults || isReset || SANDBOX_ENTRY.test(kind)) yield { kind: 'changed', view: 'sandbox' };
}
