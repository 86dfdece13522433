import { readEvent, TEST_TYPE } from '../core/events.js';
import { notify } from '../core/log.js';
import { decodeSignature, matchSecret } from '../core/signature.js';
import { readRequestBody } from './body.js';
import { queueInboxError } from './options.js';
import { type Outcome, toFailure } from './outcome.js';
import type { ReceiverParts } from './parts.js';
import { logOutcome, type OpenFacts } from './report.js';
import type { WebhookRequest } from './request.js';
import { assertDelivery } from './request-checks.js';
import type { Dispatch, Work } from './work.js';

/** Never rejects. Calls `made` and starts to read the body before it returns its promise. */
export async function receive(made: () => ReceiverParts, request: WebhookRequest): Promise<Outcome> {
  let receiver: ReceiverParts;
  try {
    receiver = made();
  } catch (error) {
    const outcome: Outcome = { origin: 'push', ...toFailure(error) };
    logOutcome(outcome, request?.logger);
    return outcome;
  }
  const { settings, report, inFlight, flows, logger, tally } = receiver;
  const { secret } = settings;
  const facts: OpenFacts = { origin: 'push', logger };
  let isAdmitted = false;
  try {
    const outcome = await report.conclude(facts, async () => {
      const mac = check(receiver, request, facts);
      const body = await readRequestBody(request, settings);
      const secrets = typeof secret === 'function' ? secret(request) : secret;
      const secretIndex = await matchSecret(body, mac, secrets);
      facts.secretIndex = secretIndex;
      inFlight.enter();
      isAdmitted = true;
      const { event, json } = readEvent(body);
      facts.event = event;
      if (event.type === TEST_TYPE) return { kind: 'ignored' };
      const { result, rest } = await flows.deliver({ event, origin: 'push', json, secretIndex });
      if (rest !== undefined) {
        // Called as a method, because platforms reject a `waitUntil` that is detached from its object.
        const keepAlive = (work: Promise<unknown>) => request.waitUntil?.(work);
        notify('waitUntil', keepAlive, { value: rest, logger: facts.logger });
      }
      return result;
    });
    tally.delivery(outcome, request);
    return outcome;
  } finally {
    if (isAdmitted) inFlight.leave();
  }
}

function check(
  { settings, inFlight, slots }: ReceiverParts,
  request: WebhookRequest,
  facts: OpenFacts,
): Uint8Array {
  if (settings.logger === undefined) facts.logger = request?.logger ?? console;
  inFlight.assertOpen();
  // With a queue or `answer: 'recorded'`, the receiver only stores the event at first, which needs no free slot.
  if (settings.queue === undefined && settings.answer === 'handled') slots?.assertFree();
  assertDelivery(request);
  return decodeSignature(request.header(settings.signature.header), settings.signature);
}

export interface RunOptions {
  readonly onRest?: ((rest: Promise<unknown>) => void) | undefined;
  readonly traceparent?: string | undefined;
  /** If the redriver took the event, `close()` already waits for it, and other processes may run it too. */
  readonly isTaken?: boolean;
}

/** Never rejects. */
export async function runEvent(
  receiver: ReceiverParts,
  dispatch: Dispatch,
  work: Work,
  { onRest, traceparent, isTaken = false }: RunOptions = {},
): Promise<Outcome> {
  const { store, report, inFlight, logger } = receiver;
  const facts: OpenFacts = { origin: work.origin, event: work.event, logger, isContended: isTaken };
  let isAdmitted = false;
  const run = async () => {
    if (!isTaken) {
      inFlight.enter();
      isAdmitted = true;
    }
    if (work.origin === 'queue' && !store.durable) throw queueInboxError('receiver.handle');
    const { result, rest } = await dispatch(work);
    if (rest !== undefined && onRest !== undefined) notify('waitUntil', onRest, { value: rest, logger });
    return result;
  };
  try {
    return await report.conclude(facts, run, traceparent);
  } finally {
    if (isAdmitted) inFlight.leave();
  }
}
