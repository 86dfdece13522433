import { setTimeout as wait } from 'node:timers/promises';
import {
  countAlike,
  describeAnswer,
  type EndpointAnswer,
  isDelivered,
  isQueued,
  outcomeOf,
  statusOf,
} from '../io/delivery.js';
import { type TestedEndpoint, toBody } from './endpoint.js';

/**
 * The result of a check.
 *
 * - `pass`: the endpoint is right.
 * - `fail`: it is wrong; `fix` says what to change.
 * - `unproven`: the replies do not show it; `fix` says how to make it visible.
 * - `skipped`: the check needs an endpoint that accepts genuine deliveries, and this one does not.
 */
export interface CheckResult {
  readonly verdict: 'pass' | 'fail' | 'unproven' | 'skipped';
  readonly got: string;
  readonly fix?: string | undefined;
}

export interface Check {
  readonly name: string;
  readonly expected: string;
  readonly run: (endpoint: TestedEndpoint) => Promise<CheckResult>;
}

const VERIFY_FIRST =
  'Verify before anything else, over the raw bytes, and answer 401: anybody who knows the URL can invent events.';
const FAILED_ON_FORGERY =
  'Answer 401 to what is not authentic: 5xx asks for a retry, and anybody can cause an error or a timeout.';
const RESERIALIZED =
  'The body is parsed and serialized again before it is verified (JSON.stringify(req.body), or a proxy). Verify the raw bytes.';

const STOPPED_BY_SIZE =
  'After the large body it no longer answers: limit how much is read, so that a body cannot end the process.';

/** Error codes of a connection that the endpoint closed. */
const CLOSED_CODES: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/** Checks of what must be refused. They do not need an endpoint that accepts genuine deliveries. */
export const REFUSAL_CHECKS: readonly Check[] = [
  {
    name: 'unsigned',
    expected: '401',
    run: async (endpoint) =>
      expectForgeryRefused(await endpoint.send(toBody(endpoint.event('unsigned')), { unsigned: true })),
  },
  {
    name: 'forged',
    expected: '401',
    run: async (endpoint) => {
      const secret = new TextEncoder().encode('not the secret of this endpoint');
      return expectForgeryRefused(await endpoint.send(toBody(endpoint.event('forged')), { secret }));
    },
  },
  {
    name: 'tampered',
    expected: '401',
    run: async (endpoint) => {
      const amount = (value: string) => toBody(endpoint.event('tampered', { payload: { amount: value } }));
      return expectForgeryRefused(await endpoint.send(amount('9.99'), { signed: amount('1.00') }));
    },
  },
  {
    name: 'wrong method',
    expected: '405 or 404',
    run: async (endpoint) =>
      expectRefused(await endpoint.send(new Uint8Array(), { method: 'GET' }), {
        accepted: 'Accept deliveries by POST only, and answer 405 to other methods.',
        failed: 'Answer 405 to every method but POST.',
      }),
  },
  {
    name: 'oversized',
    expected: '413',
    run: async (endpoint) => {
      const filler = 'x'.repeat(endpoint.oversizeBytes);
      const answer = await endpoint.send(toBody(endpoint.event('oversized', { payload: { filler } })));
      // Some servers close the connection. That is a refusal, too, if they still answer afterwards.
      if (answer.kind === 'unreachable' && CLOSED_CODES.has(answer.reason)) {
        const after = await endpoint.send(toBody(endpoint.event('after-oversized')));
        const got = describeAnswer(answer);
        if (after.kind === 'reply') return { verdict: 'pass', got };
        return { verdict: 'fail', got: `${got}, then ${describeAnswer(after)}`, fix: STOPPED_BY_SIZE };
      }
      return expectRefused(answer, {
        accepted: `Limit the body (${endpoint.oversizeBytes} bytes were read): anybody can fill the memory with large bodies.`,
        failed: 'Answer 413 to a body over the limit, before reading all of it.',
      });
    },
  },
];

/** Checks that need an endpoint that accepts genuine deliveries. */
export const DELIVERY_CHECKS: readonly Check[] = [
  {
    name: 'pretty-printed',
    expected: '2xx',
    run: async (endpoint) => {
      const body = JSON.stringify(endpoint.event('pretty-printed'), null, 2);
      return expectDelivered(await endpoint.send(encode(`${body}\n`)), RESERIALIZED);
    },
  },
  {
    name: 'non-ASCII',
    expected: '2xx',
    run: async (endpoint) => {
      const body = JSON.stringify(endpoint.event('non-ascii', { payload: { note: 'Zoë 日本 🪙' } }));
      // Escapes and number formats that JSON.parse and JSON.stringify do not preserve.
      const exotic = body.replace(
        '"test":true',
        '"test":true,"path":"a\\/b","letter":"\\u00e9","rate":10.50',
      );
      return expectDelivered(await endpoint.send(encode(exotic)), RESERIALIZED);
    },
  },
  {
    name: 'unknown type',
    expected: '2xx',
    run: async (endpoint) => {
      const event = endpoint.event('unknown-type', { type: 'doctor.unknown' });
      return expectDelivered(
        await endpoint.send(toBody(event)),
        'Accept types that are newer than this release, and store them: an error makes the service retry them forever.',
      );
    },
  },
  {
    name: 'slow sender',
    expected: '2xx',
    run: async (endpoint) =>
      expectDelivered(
        await endpoint.send(toBody(endpoint.event('slow')), { pauseMs: 100 }),
        'Wait for the whole body: it can arrive slowly and in pieces.',
      ),
  },
  {
    name: 'cut off',
    expected: '2xx for the whole one after it',
    run: async (endpoint) => {
      const body = toBody(endpoint.event('cut-off'));
      await endpoint.send(body, { cutAtBytes: Math.floor(body.length / 2) });
      const whole = await endpoint.send(body);
      if (isDelivered(whole) && outcomeOf(whole) === 'duplicate') {
        const fix = 'The half that arrived was recorded as done. Record an event only after it is verified.';
        return { verdict: 'fail', got: describeAnswer(whole), fix };
      }
      return expectDelivered(
        whole,
        'A body that ends too early must not change anything, and must not end the process.',
      );
    },
  },
  { name: 'doubled', expected: '2xx, one effect', run: checkDuplicate },
  { name: 'concurrent duplicates', expected: '2xx or 503, one effect', run: checkConcurrent },
  { name: 'failing handler', expected: '5xx, or the work before the 2xx', run: checkFailure },
];

function expectForgeryRefused(answer: EndpointAnswer): CheckResult {
  return expectRefused(answer, { accepted: VERIFY_FIRST, failed: FAILED_ON_FORGERY });
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

const STOPPED = 'Nothing listens any more: an earlier delivery seems to have ended the process. See its log.';

/** The fix when nothing listens, whatever was sent. */
function stoppedFix(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'unreachable' && answer.reason === 'ECONNREFUSED' ? STOPPED : undefined;
}

/** A genuine delivery must be answered 2xx. */
function expectDelivered(answer: EndpointAnswer, fix: string): CheckResult {
  const got = describeAnswer(answer);
  return isDelivered(answer)
    ? { verdict: 'pass', got }
    : { verdict: 'fail', got, fix: stoppedFix(answer) ?? fix };
}

/** What must be refused must be answered 4xx: 2xx accepts it, and 5xx asks for a retry. */
function expectRefused(
  answer: EndpointAnswer,
  fixes: { readonly accepted: string; readonly failed: string },
): CheckResult {
  const got = describeAnswer(answer);
  if (isDelivered(answer)) return { verdict: 'fail', got, fix: fixes.accepted };
  const refused = statusOf(answer) >= 400 && statusOf(answer) < 500;
  return refused
    ? { verdict: 'pass', got }
    : { verdict: 'fail', got, fix: stoppedFix(answer) ?? fixes.failed };
}

const NO_DEDUPE =
  'Claim each event by its id in one atomic step before the work, and keep the ids of done events: deliveries can come twice.';
const ACK_BEFORE_WORK =
  'It answers 2xx before the work is done: do the work first or enqueue it durably, because after 2xx the event is not delivered again.';
const SHOW_EFFECTS =
  'Say it in the reply ({"outcome":"duplicate"}), or pass --effects URL with {id} in it, which answers how often an event took effect.';

/** How many deliveries of one event are sent at once. */
const CONCURRENT = 8;

/** Sends the same event twice, one after the other. */
async function checkDuplicate(endpoint: TestedEndpoint): Promise<CheckResult> {
  const event = endpoint.event('doubled');
  const first = await endpoint.send(toBody(event));
  const second = await endpoint.send(toBody(event));
  if (!isDelivered(second)) {
    const fix = 'Answer 2xx to a done event, or the service retries it forever.';
    return { verdict: 'fail', got: describeAll([first, second]), fix };
  }
  return judgeOnce(endpoint, { id: event.id, answers: [first, second] });
}

/** Sends the same event many times at once: an endpoint that checks and then inserts runs several. */
async function checkConcurrent(endpoint: TestedEndpoint): Promise<CheckResult> {
  const event = endpoint.event('concurrent');
  const answers = await Promise.all(Array.from({ length: CONCURRENT }, () => endpoint.send(toBody(event))));
  // A busy reply is right for all but one.
  const wrong = answers.find((answer) => !isDelivered(answer) && !BUSY.has(statusOf(answer)));
  if (wrong !== undefined || !answers.some(isDelivered)) {
    const fix = 'Answer 2xx to one of them, and 2xx or 503 with Retry-After to the others.';
    return { verdict: 'fail', got: describeAll(answers), fix };
  }
  return judgeOnce(endpoint, { id: event.id, answers });
}

const BUSY: ReadonlySet<number> = new Set([409, 425, 429, 503]);

async function judgeOnce(
  endpoint: TestedEndpoint,
  { id, answers }: { readonly id: string; readonly answers: readonly EndpointAnswer[] },
): Promise<CheckResult> {
  const got = describeAll(answers);
  const effects = await countEffects(endpoint, { id, queued: answers.some(isQueued) });
  if (effects !== undefined) {
    const counted = `${got}; ${effects} effects`;
    if (effects === 1) return { verdict: 'pass', got: `${got}; 1 effect` };
    return { verdict: 'fail', got: counted, fix: effects === 0 ? ACK_BEFORE_WORK : NO_DEDUPE };
  }
  const runs = answers.filter((answer) => RAN.has(outcomeOf(answer)));
  if (runs.length > 1) return { verdict: 'fail', got, fix: NO_DEDUPE };
  const shown = answers.every((answer) => !isDelivered(answer) || outcomeOf(answer) !== undefined);
  return shown ? { verdict: 'pass', got } : { verdict: 'unproven', got, fix: `${NO_DEDUPE} ${SHOW_EFFECTS}` };
}

/** Outcomes in a reply which say that this delivery did the work. */
const RAN: ReadonlySet<string | undefined> = new Set(['handled', 'ignored']);

/** Sends an event that asks its handler to fail: `payload.doctor` is `failing-handler`. */
async function checkFailure(endpoint: TestedEndpoint): Promise<CheckResult> {
  const event = endpoint.event('failing-handler');
  const first = await endpoint.send(toBody(event));
  const effects = isDelivered(first) && !isQueued(first) ? await endpoint.effects(event.id) : undefined;
  if (isDelivered(first)) return judgeAcknowledged(first, effects);
  if (statusOf(first) < 500) {
    const fix =
      'Answer 5xx when a handler fails: after 4xx or no answer, the service may not retry the event.';
    return { verdict: 'fail', got: describeAnswer(first), fix };
  }
  const again = await endpoint.send(toBody(event));
  const got = describeAll([first, again]);
  return isDelivered(again) && !RIGHT_AFTER_FAILURE.has(outcomeOf(again))
    ? {
        verdict: 'fail',
        got,
        fix: 'The failed event counts as done. Record it as done after the work, not before.',
      }
    : { verdict: 'pass', got };
}

/** Outcomes that are right for the second delivery of a failed event. */
const RIGHT_AFTER_FAILURE: ReadonlySet<string | undefined> = new Set(['dead', 'handled', 'queued']);

/** The handler did not fail: its effect must exist when the 2xx arrives. */
function judgeAcknowledged(answer: EndpointAnswer, effects: number | undefined): CheckResult {
  const got = describeAnswer(answer);
  if (effects === 0) return { verdict: 'fail', got: `${got}; 0 effects`, fix: ACK_BEFORE_WORK };
  if (effects !== undefined) return { verdict: 'pass', got: `${got}; ${effects} effects` };
  if (outcomeOf(answer) !== undefined) return { verdict: 'pass', got };
  const show =
    'To rule this out, let the handler throw when payload.doctor is "failing-handler", or pass --effects.';
  return { verdict: 'unproven', got, fix: `${ACK_BEFORE_WORK} ${show}` };
}

/** Counts the effects; queued work gets time to run. */
async function countEffects(
  endpoint: TestedEndpoint,
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

/** `200 handled, 7 × 503 ERR_EVENT_BUSY`. */
function describeAll(answers: readonly EndpointAnswer[]): string {
  const kinds = countAlike(answers.map(describeAnswer));
  return kinds.map(([words, count]) => (count === 1 ? words : `${count} × ${words}`)).join(', ');
}
