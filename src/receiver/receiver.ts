/** The receiver: one pipeline and its three doors, each the tail of the one above. */
import { BusyError } from '../core/errors.js';
import {
  EVENT_TYPES,
  isKnownEvent,
  readEvent,
  type UnknownEvent,
  type WebhookEvent,
} from '../core/events.js';
import type { ClaimOptions, Inbox, Origin, RecordResult } from '../core/inbox.js';
import type { Queue } from '../core/queue.js';
import { assertSignature } from '../core/signature.js';
import { reach } from './dependency.js';
import { notify } from './notify.js';
import { type ReceiverOptions, readOptions } from './options.js';
import {
  type Ending,
  emptyCounts,
  type Outcome,
  type OutcomeCounts,
  type Trace,
  toEnding,
} from './outcome.js';
import { type Recording, record } from './record.js';
import { readWebhookRequest, type WebhookRequest } from './request.js';
import { settle } from './settlement.js';
import { createGate } from './shutdown.js';

/** Which way an event came to a door. */
export interface From {
  readonly origin: Origin;
}

/** Receives events. The three doors never throw or reject: each answers an {@link Outcome}. */
export interface Receiver {
  /** Takes one HTTP delivery, untrusted: verifies, parses, and goes on as {@link Receiver.accept}. */
  receive(request: WebhookRequest): Promise<Outcome>;
  /** Takes an authentic event: enqueues it where there is a queue, else goes on as {@link Receiver.handle}. */
  accept(event: UnknownEvent, from: From): Promise<Outcome>;
  /** Claims an authentic event, runs its handler in this process, and settles it. */
  handle(event: UnknownEvent, from: From): Promise<Outcome>;
  /**
   * Records authentic events without running them, a whole page at once, and answers how the inbox knew each,
   * in order. Those of known types are due after `dueInMs`; the others are parked, and `onUnknown` is told.
   *
   * @throws {UnavailableError} `ERR_INBOX_FAILED`; some of the events may then be recorded.
   */
  record(events: readonly UnknownEvent[], recording: Recording): Promise<readonly RecordResult[]>;
  /**
   * Accepts what waits in the inbox: received, failed and due, its lease lapsed, or parked and known by now.
   * The catch-up poller calls it, or a timer of your own. It ends when nothing is due any more, and at the latest
   * after `leaseMs`, when what it took first and could not hand on would come round again.
   *
   * @returns how many ended in which way.
   * @throws {UnavailableError} `ERR_INBOX_FAILED` when the inbox cannot be asked what is due.
   */
  redrive(options?: { readonly signal?: AbortSignal | undefined }): Promise<OutcomeCounts>;
  /** Takes nothing more (every door answers `busy`) and resolves when what runs has ended. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
  /** Where this receiver's events are claimed and remembered. */
  readonly inbox: Inbox<unknown>;
}

/** Which way an event came, and its own text where it is at hand. */
type Arrival = From & Pick<ClaimOptions, 'json'>;

/** How many events `redrive` takes and runs at a time. */
const REDRIVE_BATCH = 16;

/**
 * Makes a receiver.
 *
 * @throws {ConfigError} `ERR_CONFIG_INVALID` when an option is missing, unknown or makes no sense.
 *
 * @example
 * ```ts
 * const receiver = createReceiver({
 *   secret: process.env['WEBHOOK_SECRET'] ?? '',
 *   handlers: { 'transfer.settled': (event) => console.log(event.id) },
 * });
 * ```
 */
export function createReceiver<const Schemas = Record<never, never>, Tx = undefined>(
  options: ReceiverOptions<Schemas, Tx>,
): Receiver {
  const rules = readOptions(options);
  const { inbox, queue, leaseMs } = rules;
  const gate = createGate();

  const receive = (request: WebhookRequest) =>
    conclude({ origin: 'push' }, async (trace) => {
      const { body, mac } = await readWebhookRequest(request, rules.request);
      await assertSignature(body, mac, await rules.keyring());
      const { parsed, json } = readEvent(body);
      trace.event = parsed.event;
      return await dispatch(parsed.event, { origin: trace.origin, json });
    });

  const accept = (event: UnknownEvent, { origin }: From) =>
    conclude({ origin, event }, () => dispatch(event, { origin }));

  const handle = (event: UnknownEvent, { origin }: From) =>
    conclude({ origin, event }, () => run(event, { origin }));

  function dispatch(event: UnknownEvent, arrival: Arrival): Promise<Ending> {
    return queue !== undefined && isKnownEvent(event)
      ? enqueue(event, { ...arrival, queue })
      : run(event, arrival);
  }

  async function enqueue(
    event: WebhookEvent,
    { origin, queue }: From & { readonly queue: Queue },
  ): Promise<Ending> {
    // Recorded first: should we die before it is enqueued, redrive enqueues it once leaseMs has passed.
    const [result] = await record([event], { dueInMs: leaseMs, origin, rules });
    if (result === 'done') return { kind: 'duplicate' };
    if (result === 'dead') return { kind: 'dead' };
    await reach('ERR_QUEUE_FAILED', queue.enqueue(event));
    return { kind: 'queued' };
  }

  function run(event: UnknownEvent, arrival: Arrival): Promise<Ending> {
    return isKnownEvent(event) ? claim(event, arrival) : park(event, arrival);
  }

  async function claim(event: WebhookEvent, { origin, json }: Arrival): Promise<Ending> {
    const claim = await reach('ERR_INBOX_FAILED', inbox.claim(event, { leaseMs, origin, json }));
    if (claim.state === 'claimed') return await settle(event, { lease: claim.lease, origin, rules });
    if (claim.state === 'done') return { kind: 'duplicate' };
    if (claim.state === 'dead') return { kind: 'dead' };
    throw new BusyError('ERR_EVENT_BUSY', 'Another process or delivery has this event.', claim);
  }

  async function park(event: UnknownEvent, { origin }: Arrival): Promise<Ending> {
    const [result] = await record([event], { dueInMs: leaseMs, origin, rules });
    return { kind: result === 'done' ? 'duplicate' : 'parked' };
  }

  /** The one place that catches: whatever happens in a pipeline ends as an outcome, and is reported. */
  async function conclude(trace: Trace, pipeline: (trace: Trace) => Promise<Ending>): Promise<Outcome> {
    let ending: Ending;
    try {
      gate.enter();
      try {
        ending = await pipeline(trace);
      } finally {
        gate.leave();
      }
    } catch (error) {
      ending = toEnding(error);
    }
    const outcome: Outcome = Object.assign(trace, ending);
    notify('onOutcome', { observer: rules.onOutcome, value: outcome });
    return outcome;
  }

  async function redrive({
    signal,
  }: {
    readonly signal?: AbortSignal | undefined;
  } = {}): Promise<OutcomeCounts> {
    const tally = emptyCounts();
    const take = { limit: REDRIVE_BATCH, visibilityTimeoutMs: leaseMs, types: EVENT_TYPES };
    const until = performance.now() + leaseMs;
    while (!signal?.aborted && !gate.closed() && performance.now() < until) {
      const due = await reach('ERR_INBOX_FAILED', inbox.takeDue(take));
      if (due.length === 0) break;
      const outcomes = await Promise.all(due.map((event) => accept(event, { origin: 'redrive' })));
      for (const { kind } of outcomes) tally[kind] += 1;
    }
    return tally;
  }

  return {
    receive,
    accept,
    handle,
    record: (events, recording) => record(events, { ...recording, rules }),
    redrive,
    close: gate.close,
    [Symbol.asyncDispose]: gate.close,
    inbox,
  };
}
