import { EVENT_TYPES, SIGNATURE_HEADER } from 'stablehooks';
import { exampleEvent } from 'stablehooks/testing';
import { answerOf } from '../sandbox/answer.js';
import { bytesOf, KEPT_RESPONSE_BYTES } from '../sandbox/deliveries.js';
import type { Attempt, Sandbox, SandboxOperations } from '../sandbox/index.js';
import { SandboxError } from '../sandbox/validation.js';
import type { AttemptDetail, Message, ServiceReport, StreamEntry } from './api.js';
import { createAttemptEvents, type KeptAttempt, toResult } from './attempt-events.js';
import type { DeliveriesPart, InspectorSource } from './source.js';

const MAX_MOVEMENTS = 200;

/** A sandbox in this process as the source of an inspector: its deliveries and its world. */
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
    }),
    async find(id) {
      const attempt = find(id);
      return attempt && toDetail(sandbox, attempt);
    },
    async resend(id, { url, body }) {
      const attempt = find(id);
      if (attempt === undefined) {
        throw new SandboxError('ERR_SANDBOX_NOT_FOUND', 'This attempt has been dropped. Send a newer one.');
      }
      const { deliveryId, request, faults } = attempt;
      // A fault changed the bytes after the sandbox had signed them; a resent delivery has no faults.
      const own = faults.includes('reserialise') ? undefined : bytesOf(request);
      const resent = await sandbox.resend(deliveryId, { url: url ?? request.url, body: body ?? own });
      return toKept(resent).row;
    },
  };
}

/** Each attempt is read once, because its reply must be parsed for the outcome. */
const read = new WeakMap<Attempt, KeptAttempt>();

function toKept(attempt: Attempt): KeptAttempt {
  const known = read.get(attempt);
  if (known !== undefined) return known;
  const { deliveryId, number, eventId, type, edited, startedAt, request, response, faults } = attempt;
  const id = `${deliveryId}.${number}${faults.includes('duplicate') ? '.duplicate' : ''}`;
  const kept = {
    row: {
      ...{ id, at: startedAt, eventId, type, edited, endpoint: request.url, attempt: number },
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
      // A reply of exactly the kept length was probably longer.
      cut:
        bytesOf(response).length === KEPT_RESPONSE_BYTES &&
        response.headers['content-length'] !== String(KEPT_RESPONSE_BYTES),
    },
    error,
    verdict: await sandbox.explain(attempt),
    // The other header of a delivery is `content-type`.
    signatureHeader: Object.keys(request.headers).find((name) => name !== 'content-type') ?? SIGNATURE_HEADER,
  };
}

function toMessage({ headers, ...body }: NonNullable<Attempt['response']> | Attempt['request']): Message {
  return { headers, body: Buffer.from(bytesOf(body)).toString('base64') };
}

const EXAMPLES = Object.fromEntries(EVENT_TYPES.map((type) => [type, exampleEvent(type).payload]));

export function reportService(sandbox: SandboxOperations): ServiceReport {
  return {
    wallets: sandbox.wallets.list(),
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

/** Entries of the feed that the view of the sandbox shows. */
const SANDBOX_ENTRY = /^(wallet|movement|endpoint|faults|clock)\./;

function* toEntries(kind: string, data: unknown): Generator<StreamEntry> {
  const isReset = kind === 'sandbox.reset';
  if (kind === 'attempt.made' || isReset) yield { kind: 'changed', view: 'events' };
  // A fault with a limited count has one occurrence fewer.
  const hasFaults = kind === 'attempt.made' && (data as Attempt).faults.length > 0;
  if (hasFaults || isReset || SANDBOX_ENTRY.test(kind)) yield { kind: 'changed', view: 'sandbox' };
}
