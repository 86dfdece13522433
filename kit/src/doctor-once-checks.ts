/** Checks that an event takes effect once: by what the replies say, or by a count of the effects. */
import { setTimeout as wait } from 'node:timers/promises';
import { type Answer, describeAnswer, isDelivered, outcomeOf, statusOf } from './delivery.js';
import { countAlike } from './delivery-report.js';
import { type Endpoint, toBody } from './doctor-endpoint.js';
import type { Finding } from './doctor-finding.js';

const NO_DEDUPE =
  'Claim each event by its id in one atomic step before the work, and keep the ids of what is done: deliveries come twice.';
const ACK_BEFORE_WORK =
  'It says 2xx before the work is done: do the work first or enqueue it durably, for after a 2xx nobody delivers it again.';
const SHOW_EFFECTS =
  'Let the reply tell ({"outcome":"duplicate"}), or pass --effects URL with {id} in it, which answers how often an event took effect.';

/** How many deliveries of one event are sent at once. */
const CONCURRENT = 8;

/** The same event twice, one after the other. */
export async function checkDuplicate(endpoint: Endpoint): Promise<Finding> {
  const event = endpoint.event('doubled');
  const first = await endpoint.send(toBody(event));
  const second = await endpoint.send(toBody(event));
  if (!isDelivered(second)) {
    const fix = 'Answer 2xx to an event that is done, or it is delivered for ever.';
    return { verdict: 'fail', got: describe([first, second]), fix };
  }
  return judgeOnce(endpoint, { id: event.id, answers: [first, second] });
}

/** The same event many times at once: check-then-insert lets several through. */
export async function checkConcurrent(endpoint: Endpoint): Promise<Finding> {
  const event = endpoint.event('concurrent');
  const answers = await Promise.all(Array.from({ length: CONCURRENT }, () => endpoint.send(toBody(event))));
  // "Busy, come again" is a right answer to all but one.
  const wrong = answers.find((answer) => !isDelivered(answer) && !BUSY.has(statusOf(answer)));
  if (wrong !== undefined || !answers.some(isDelivered)) {
    const fix = 'Answer 2xx to one of them, and 2xx or 503 with Retry-After to the others.';
    return { verdict: 'fail', got: describe(answers), fix };
  }
  return judgeOnce(endpoint, { id: event.id, answers });
}

const BUSY: ReadonlySet<number> = new Set([409, 425, 429, 503]);

async function judgeOnce(
  endpoint: Endpoint,
  { id, answers }: { readonly id: string; readonly answers: readonly Answer[] },
): Promise<Finding> {
  const got = describe(answers);
  const effects = await countEffects(endpoint, { id, queued: answers.some(isQueued) });
  if (effects !== undefined) {
    const counted = `${got}; ${effects} effects`;
    if (effects === 1) return { verdict: 'pass', got: `${got}; 1 effect` };
    return { verdict: 'fail', got: counted, fix: effects === 0 ? ACK_BEFORE_WORK : NO_DEDUPE };
  }
  const runs = answers.filter((answer) => RAN.has(outcomeOf(answer)));
  if (runs.length > 1) return { verdict: 'fail', got, fix: NO_DEDUPE };
  const told = answers.every((answer) => !isDelivered(answer) || outcomeOf(answer) !== undefined);
  return told ? { verdict: 'pass', got } : { verdict: 'unproven', got, fix: `${NO_DEDUPE} ${SHOW_EFFECTS}` };
}

/** The outcomes of a reply that say that the work was done for it. */
const RAN: ReadonlySet<string | undefined> = new Set(['handled', 'ignored']);

/** An event whose handler is asked to fail: `payload.doctor` is `failing-handler`. */
export async function checkFailure(endpoint: Endpoint): Promise<Finding> {
  const event = endpoint.event('failing-handler');
  const first = await endpoint.send(toBody(event));
  const effects = isDelivered(first) && !isQueued(first) ? await endpoint.effects(event.id) : undefined;
  if (isDelivered(first)) return judgeAcknowledged(first, effects);
  if (statusOf(first) < 500) {
    const fix = 'Answer 5xx when a handler fails: after a 4xx or a silence the event may never come again.';
    return { verdict: 'fail', got: describeAnswer(first), fix };
  }
  const again = await endpoint.send(toBody(event));
  const got = describe([first, again]);
  return isDelivered(again) && !GIVEN_UP.has(outcomeOf(again))
    ? {
        verdict: 'fail',
        got,
        fix: 'The failed event counts as done. Record it as done after the work, not before.',
      }
    : { verdict: 'pass', got };
}

/** A handler may also succeed on a second attempt, or the receiver give the event up; both are told. */
const GIVEN_UP: ReadonlySet<string | undefined> = new Set(['dead', 'handled', 'queued']);

/** The handler did not fail: then its effect has to be there by the time of the 2xx. */
function judgeAcknowledged(answer: Answer, effects: number | undefined): Finding {
  const got = describeAnswer(answer);
  if (effects === 0) return { verdict: 'fail', got: `${got}; 0 effects`, fix: ACK_BEFORE_WORK };
  if (effects !== undefined) return { verdict: 'pass', got: `${got}; ${effects} effects` };
  if (outcomeOf(answer) !== undefined) return { verdict: 'pass', got };
  const show =
    'To prove the opposite, let the handler throw when payload.doctor is "failing-handler", or pass --effects.';
  return { verdict: 'unproven', got, fix: `${ACK_BEFORE_WORK} ${show}` };
}

/** Work that was queued is done some time later. */
async function countEffects(
  endpoint: Endpoint,
  { id, queued }: { readonly id: string; readonly queued: boolean },
): Promise<number | undefined> {
  const deadline = performance.now() + (queued ? endpoint.timeoutMs : 0);
  let count = await endpoint.effects(id);
  while (count === 0 && performance.now() < deadline) {
    await wait(100);
    count = await endpoint.effects(id);
  }
  return count;
}

function isQueued(answer: Answer): boolean {
  return statusOf(answer) === 202;
}

/** `200 handled, 7 × 503 ERR_EVENT_BUSY`. */
function describe(answers: readonly Answer[]): string {
  const kinds = countAlike(answers.map(describeAnswer));
  return kinds.map(([words, count]) => (count === 1 ? words : `${count} × ${words}`)).join(', ');
}
