import { setTimeout as wait } from 'node:timers/promises';
import { EVENT_TYPES } from 'stablehooks';
import { explainAnswer, findingOf } from '../explain/replies.js';
import {
  describeAnswer,
  type EndpointAnswer,
  isDelivered,
  isQueued,
  isSignatureRefused,
  isWithoutEffect,
  outcomeOf,
  reportsNoHandler,
  statusOf,
} from '../io/answer.js';
import { countAlike, countOf } from '../io/output.js';
import { TEST_TYPE, type TestEvent, type TestedAnswer, type TestedEndpoint, toBody } from './endpoint.js';

/** `not shown` means that the responses do not show whether the endpoint is correct, or that the check did not run. */
export interface CheckResult {
  readonly verdict: 'pass' | 'fail' | 'not shown';
  readonly got: string;
  readonly elapsedMs?: number | undefined;
  readonly fix?: string | undefined;
}

export interface Check {
  readonly name: string;
  readonly expected: string;
  readonly runsHandlers?: true;
  readonly run: (endpoint: TestedEndpoint) => Promise<CheckResult>;
}

const VERIFY_FIRST =
  'Verify the signature over the raw bytes before anything else, and return 401 if it does not match. Otherwise, anyone who knows the URL can invent events.';
const COMPARE_WHOLE =
  'The endpoint accepts an empty signature or the beginning of the correct one. Reject any signature of the wrong length before you call timingSafeEqual, and never use startsWith to compare signatures.';
const FAILED_ON_FORGERY =
  'Return 401 for a forged delivery. A 5xx asks for a retry, and any sender can cause an error or a timeout.';
const OTHER_REFUSAL =
  'Return 401 or 403 for a forged delivery. Other statuses do not show that the signature is the reason.';
const RESERIALIZED =
  'The body is parsed and serialized again before it is verified, by JSON.stringify(req.body) or by a proxy. Verify the raw bytes, and make sure that proxies forward the body unchanged.';

const ACTED_ON_REFUSED =
  'The endpoint acted on an event although it refused the signature. Verify the signature over the raw bytes first, and do the work only after that.';
const ACTED_ON_OVERSIZED =
  'The endpoint acted on an event that it refused because of its size. Read and verify the whole body before you do the work.';
export const ACTED_ON_UNKNOWN =
  'The endpoint acted on an event of a type that no release knows. Do the work only for types that you know, and store the other events.';
export const ACCEPT_UNKNOWN =
  'Accept and store events of types that are newer than this release. If you return an error, the service retries them forever.';
const ACTED_ON_HALF =
  'The endpoint acted on half a body. Read and verify the whole body before you do the work.';

const STOPPED_BY_SIZE =
  'After the large body, the endpoint no longer accepts a small one. Limit how much you read, so that a large body cannot crash the process.';

const ANSWER_413 = 'Return 413 for a body over the limit, before you read all of it.';
const SIZE_NOT_NAMED = `The response does not say that the size was the reason, so the endpoint may have read the whole body. ${ANSWER_413}`;

const CLOSED_CODES: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/** Seven days: older than any replay window. */
const OLD_MS = 604_800_000;

export const UNKNOWN_FIELDS =
  'The endpoint refuses events with unknown fields. Ignore unknown fields, because the service may add fields at any time.';

function forgery(
  name: string,
  send: (endpoint: TestedEndpoint, event: TestEvent) => Promise<readonly TestedAnswer[]>,
  fix?: string,
): Check {
  return {
    name,
    expected: '401 or 403',
    async run(endpoint) {
      const event = endpoint.event(name.replace(' ', '-'));
      return judgeForgery(endpoint, event.id, await send(endpoint, event), fix);
    },
  };
}

/** Conclusive only if a genuine delivery was not refused. */
export const REFUSAL_CHECKS: readonly Check[] = [
  forgery('unsigned', async ({ send }, event) => [await send(toBody(event), { unsigned: true })]),
  forgery(
    'short signature',
    async ({ send }, event) => {
      const cut = (part: number) => ({
        changeSignature: (signature: string) => signature.slice(0, signature.length * part),
      });
      return [await send(toBody(event), cut(0)), await send(toBody(event), cut(0.5))];
    },
    COMPARE_WHOLE,
  ),
  forgery('forged', async ({ sendForged }, event) => [await sendForged(toBody(event))]),
  forgery('tampered', async ({ send }, event) => {
    const of = (amount: string) => toBody({ ...event, payload: { ...event.payload, amount } });
    return [await send(of('9.99'), { signed: of('1.00') })];
  }),
  {
    name: 'wrong method',
    expected: '4xx',
    run: async (endpoint) => {
      const answer = await endpoint.send(new Uint8Array(), { method: 'GET' });
      if (isClientError(answer)) return toResult('pass', [answer]);
      const fix =
        statusOf(answer) >= 500 || answer.kind !== 'reply'
          ? 'Return 405 for every method except POST.'
          : 'Accept deliveries only by POST, and return 405 for other methods.';
      return refusedResult(answer, fix);
    },
  },
];

function delivery(
  name: string,
  send: (endpoint: TestedEndpoint) => Promise<TestedAnswer>,
  fix: string,
): Check {
  return {
    name,
    expected: '2xx',
    run: async (endpoint) => judgeDelivery(endpoint, await send(endpoint), fix),
  };
}

export const DELIVERY_CHECKS: readonly Check[] = [
  { name: 'oversized', expected: '413', run: checkOversized },
  delivery(
    'pretty-printed',
    ({ send, event }) => send(encode(`${JSON.stringify(event('pretty-printed'), null, 2)}\n`)),
    RESERIALIZED,
  ),
  delivery(
    'non-ASCII',
    ({ send, event }) => {
      const body = JSON.stringify(event('non-ascii', { payload: { note: 'Zoë 日本 🪙' } }));
      // These escapes and number formats would change if the body were parsed and serialized again.
      const exotic = '"test":true,"path":"a\\/b","letter":"\\u00e9","rate":10.50';
      return send(encode(body.replace('"test":true', exotic)));
    },
    RESERIALIZED,
  ),
  {
    name: 'unknown type',
    expected: '2xx',
    // If no handlers run, every test event has a type that no release knows, so there is nothing to check.
    runsHandlers: true,
    run: async (endpoint) => {
      const event = endpoint.event('unknown-type', { type: TEST_TYPE });
      const answer = await endpoint.send(toBody(event));
      const result = judgeDelivery({ runsHandlers: false }, answer, ACCEPT_UNKNOWN);
      return expectNoEffect(endpoint, { id: event.id, answer, result, fix: ACTED_ON_UNKNOWN });
    },
  },
  delivery(
    'unknown fields',
    ({ send, event }) => {
      const newer = event('unknown-fields', { payload: { doctor_added: { later: true } } });
      return send(toBody({ ...newer, doctor_added: 1 }));
    },
    UNKNOWN_FIELDS,
  ),
  delivery(
    'old event',
    ({ send, event }) =>
      send(toBody(event('old', { created_at: new Date(Date.now() - OLD_MS).toISOString() }))),
    'The endpoint refuses an event that is seven days old. Accept events of any age, because retries and catch-up deliver old events. The inbox recognises replays by their id.',
  ),
  delivery(
    'chunked',
    ({ send, event }) => send(toBody(event('chunked')), { chunked: true }),
    'The endpoint cannot read a chunked body, which has no Content-Length. Read the body to its end, because proxies and HTTP clients send chunked bodies.',
  ),
  delivery(
    'slow sender',
    ({ send, event }) => send(toBody(event('slow')), { pauseMs: 100 }),
    'Wait for the whole body, which may arrive slowly and in pieces.',
  ),
  {
    name: 'cut off',
    expected: '2xx after',
    run: async (endpoint) => {
      const event = endpoint.event('cut-off');
      const body = toBody(event);
      const half = await endpoint.send(body, { cutAtBytes: Math.floor(body.length / 2) });
      const early = await countUnwanted(endpoint, event.id);
      if (early) return withEffects(toResult('fail', [half], ACTED_ON_HALF), early);
      const whole = await endpoint.send(body);
      if (outcomeOf(whole) === 'duplicate') {
        const fix = 'The endpoint recorded half a body as done. Record an event only after you verify it.';
        return toResult('fail', [whole], fix);
      }
      return judgeDelivery(
        endpoint,
        whole,
        'A body that ends too early must not change anything or crash the process.',
      );
    },
  },
  { name: 'doubled', expected: 'one effect', runsHandlers: true, run: checkDuplicate },
  { name: 'concurrent', expected: 'one effect', runsHandlers: true, run: checkConcurrent },
  { name: 'remembered', expected: 'one effect', runsHandlers: true, run: checkRemembered },
  { name: 'failing handler', expected: '5xx / done', runsHandlers: true, run: checkFailure },
];

/** Must come last, because this check looks at all responses. */
export const LEAK_CHECK: Check = {
  name: 'no secrets',
  expected: 'no secret',
  run: async (endpoint) => {
    const answer = await endpoint.send(toBody(endpoint.event('no-secrets')), {
      changeSignature: () => 'not a signature',
    });
    const found = [...endpoint.leaks].join(' and ');
    if (found === '' && answer.kind === 'reply') return toResult('pass', [answer]);
    if (found === '')
      return toResult('not shown', [answer], stoppedFix(answer) ?? explainAnswer(answer).what);
    const fix = `The endpoint's responses contain ${found}, so any sender can sign events. Return refusals without details, and write the details to your log.`;
    return { ...toResult('fail', [answer], fix), got: `${describeAnswer(answer)}, ${found}` };
  },
};

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function toResult(
  verdict: CheckResult['verdict'],
  answers: readonly EndpointAnswer[],
  fix?: string,
): CheckResult {
  const elapsedMs = answers.reduce((slowest, answer) => Math.max(slowest, answer.elapsedMs), 0);
  return { verdict, got: describeAll(answers), elapsedMs, fix };
}

function describeAll(answers: readonly EndpointAnswer[]): string {
  const kinds = countAlike(answers.map(describeAnswer));
  return kinds.map(([words, count]) => (count === 1 ? words : `${count} × ${words}`)).join(', ');
}

const STOPPED =
  'Nothing is listening any more. An earlier delivery seems to have crashed the process: see its log.';

function stoppedFix(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'unreachable' && answer.reason === 'ECONNREFUSED' ? STOPPED : undefined;
}

const HANDLER_GAVE_UP =
  "The handler gave up on the test event (PermanentError), so the event does not run again. See the endpoint's log, or use --payload FILE to pass a payload that the handler accepts.";
const NOT_NEW =
  'The endpoint returns `duplicate` for an event that it has never handled. Compare the whole id, and record an event only after you verify it.';

/** Limits, proxies and outages cause these statuses, whatever the event is. */
const NOT_THE_EVENT: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export function quoteReply({ words }: TestedAnswer): string {
  return words === '' ? 'The response is empty.' : `The response: "${words}".`;
}

export function explainStatus(answer: TestedAnswer): string | undefined {
  const status = statusOf(answer);
  if (NOT_THE_EVENT.has(status) && isInconclusive(answer)) return explainCode(answer);
  if (status === 429)
    return `The endpoint limits the rate of requests (429). ${quoteReply(answer)} Raise the limit, or try again later.`;
  if (NOT_THE_EVENT.has(status)) {
    return `The endpoint, or a proxy in front of it, is unavailable (${status}). ${quoteReply(answer)} See the log.`;
  }
  if (answer.asksToLogIn || (isSignatureRefused(answer) && answer.kind === 'reply' && answer.isPage)) {
    return `Something in front of the receiver requires a login (${status}). ${quoteReply(answer)} Let deliveries through without a login.`;
  }
  return undefined;
}

function busyResult(answer: TestedAnswer): CheckResult | undefined {
  const why = isDelivered(answer) ? undefined : explainStatus(answer);
  return why === undefined ? undefined : toResult('not shown', [answer], why);
}

function refusedResult(answer: TestedAnswer, fix: string, answers = [answer]): CheckResult {
  return busyResult(answer) ?? toResult('fail', answers, stoppedFix(answer) ?? fix);
}

export function judgeDelivery(
  { runsHandlers }: Pick<TestedEndpoint, 'runsHandlers'>,
  answer: TestedAnswer,
  fix?: string,
): CheckResult {
  const outcome = outcomeOf(answer);
  if (outcome === 'dead') return toResult('fail', [answer], HANDLER_GAVE_UP);
  if (!isDelivered(answer)) {
    if (fix === undefined) return toResult('fail', [answer], stoppedFix(answer));
    return refusedResult(answer, statusOf(answer) === 500 ? `${fix} ${quoteReply(answer)}` : fix);
  }
  if (outcome === 'duplicate') return toResult('fail', [answer], NOT_NEW);
  if (!isWithoutEffect(answer) || (!runsHandlers && reportsNoHandler(answer)))
    return toResult('pass', [answer]);
  if (!reportsNoHandler(answer)) {
    const { what, fix: advice } = explainAnswer(answer);
    return toResult('not shown', [answer], `${what} ${advice}`);
  }
  const how = `No handler ran. Pass --type with a type that has a handler: ${EVENT_TYPES.join(', ')}.`;
  return toResult('not shown', [answer], how);
}

function judgeForgery(
  endpoint: TestedEndpoint,
  id: string,
  answers: readonly TestedAnswer[],
  fix = VERIFY_FIRST,
): Promise<CheckResult> {
  const worst = answers.find(isDelivered) ?? answers.find((each) => !isSignatureRefused(each)) ?? answers[0];
  if (worst === undefined) throw new RangeError('A check without an answer.');
  const result = { ...expectForgeryRefused(worst, fix), got: describeAll(answers) };
  return expectNoEffect(endpoint, { id, answer: worst, result, fix: ACTED_ON_REFUSED });
}

interface Refusal {
  readonly id: string;
  readonly answer: TestedAnswer;
  readonly result: CheckResult;
  /** The fix if the event took effect without a 2xx. After a 2xx, the result already contains a fix. */
  readonly fix: string;
}

export async function expectNoEffect(
  endpoint: TestedEndpoint,
  { id, answer, result, fix }: Refusal,
): Promise<CheckResult> {
  // Nothing is listening any more, so counting the effects may be impossible.
  if (stoppedFix(answer) !== undefined) return result;
  const effects = await countUnwanted(endpoint, id);
  if (effects === undefined) return result;
  if (effects === 0) return withEffects(result, effects);
  const isKnown = result.verdict === 'fail' && isDelivered(answer);
  return withEffects({ ...result, verdict: 'fail', fix: isKnown ? result.fix : fix }, effects);
}

/** A 2xx accepts the forged delivery, and a 5xx asks for a retry. */
function expectForgeryRefused(answer: TestedAnswer, accepted: string): CheckResult {
  if (isDelivered(answer)) return toResult('fail', [answer], accepted);
  if (isSignatureRefused(answer)) return busyResult(answer) ?? toResult('pass', [answer]);
  const status = statusOf(answer);
  const fix = status >= 300 && status < 500 ? OTHER_REFUSAL : `${FAILED_ON_FORGERY} ${quoteReply(answer)}`;
  return refusedResult(answer, fix);
}

function isClientError(answer: EndpointAnswer): boolean {
  return statusOf(answer) >= 400 && statusOf(answer) < 500;
}

async function checkOversized(endpoint: TestedEndpoint): Promise<CheckResult> {
  const filler = 'x'.repeat(endpoint.oversizeBytes);
  const event = endpoint.event('oversized', { payload: { filler } });
  const large = await endpoint.send(toBody(event));
  const small = await endpoint.send(toBody(endpoint.event('after-oversized')));
  if (!isDelivered(small)) return toResult('fail', [large, small], STOPPED_BY_SIZE);
  const after = judgeDelivery(endpoint, small);
  if (after.verdict !== 'pass') return toResult(after.verdict, [large, small], after.fix);
  const result = judgeOversized(endpoint, large);
  return expectNoEffect(endpoint, { id: event.id, answer: large, result, fix: ACTED_ON_OVERSIZED });
}

function judgeOversized(endpoint: TestedEndpoint, large: EndpointAnswer): CheckResult {
  // Some servers close the connection instead of responding.
  const closed = large.kind === 'unreachable' && CLOSED_CODES.has(large.reason);
  if (closed || statusOf(large) === 413) return toResult('pass', [large]);
  if (isClientError(large)) return toResult('not shown', [large], SIZE_NOT_NAMED);
  const fix = isDelivered(large)
    ? `Limit the size of the body: the endpoint read ${endpoint.oversizeBytes} bytes, so any sender can fill its memory.`
    : ANSWER_413;
  return toResult('fail', [large], fix);
}

const NO_DEDUPE =
  'Claim each event by id in one atomic step before you do the work, and keep the ids of done events, because events may be delivered twice.';
const HANDLED_TWICE =
  'Two deliveries of the same event were handled. If you run several processes, give all of them the same durable inbox (sqliteInbox, postgresInbox, mysqlInbox or redisInbox). Otherwise, claim each event by id in one atomic step before you do the work.';
const SEPARATE_INBOXES =
  'Two deliveries of the same event were handled, because this inbox works only within one process. Give all processes the same durable inbox: sqliteInbox, postgresInbox, mysqlInbox or redisInbox.';
const ACK_BEFORE_WORK =
  'The endpoint returns a 2xx before the work is done. Do the work first or enqueue it durably, because an event is not delivered again after a 2xx.';
const SHOW_EFFECTS =
  'The responses do not say how many times the event took effect. Pass --effects with a URL that contains {id} and returns that number, or return the outcome: {"outcome":"handled"}, then {"outcome":"duplicate"}.';

const ACCEPT_AGAIN =
  'Return a 2xx for an event that is already done. Otherwise, the service retries it forever.';

const CONCURRENT = 8;

async function checkDuplicate(endpoint: TestedEndpoint): Promise<CheckResult> {
  const event = endpoint.event('doubled');
  const answers = [await endpoint.send(toBody(event)), await endpoint.send(toBody(event))];
  const lost = answers.find((answer) => !isDelivered(answer));
  if (lost !== undefined) {
    return { ...refusedResult(lost, ACCEPT_AGAIN, answers), got: describeAll(answers) };
  }
  return judgeOnce(endpoint, { id: event.id, answers });
}

const REMEMBERED_MS = 2_500;

const FORGETS_IDS =
  'The endpoint handled the first event of this run again. Keep the ids of done events for as long as the service may resend them: for months, in a durable inbox.';

async function checkRemembered(endpoint: TestedEndpoint): Promise<CheckResult> {
  await wait(Math.max(0, REMEMBERED_MS - (performance.now() - endpoint.startedAt)));
  const event = endpoint.event('genuine');
  const answer = await endpoint.send(toBody(event));
  if (!isDelivered(answer)) return refusedResult(answer, ACCEPT_AGAIN);
  if (outcomeOf(answer) === 'handled') return toResult('fail', [answer], FORGETS_IDS);
  const effects = await countEffects(endpoint, { id: event.id, queued: isQueued(answer) });
  if (effects === undefined) {
    return outcomeOf(answer) === 'duplicate'
      ? toResult('pass', [answer])
      : toResult('not shown', [answer], SHOW_EFFECTS);
  }
  const result = effects > 1 ? toResult('fail', [answer], FORGETS_IDS) : toResult('pass', [answer]);
  return withEffects(result, effects);
}

/** An endpoint that checks and then inserts runs the event more than once. */
async function checkConcurrent(endpoint: TestedEndpoint): Promise<CheckResult> {
  const event = endpoint.event('concurrent');
  const answers = await Promise.all(Array.from({ length: CONCURRENT }, () => endpoint.send(toBody(event))));
  // All deliveries except one are allowed to get a busy response.
  const wrong = answers.find((answer) => !isDelivered(answer) && !BUSY.has(statusOf(answer)));
  if (wrong !== undefined || !answers.some(isDelivered)) {
    const fix = 'Return a 2xx for one of the deliveries, and a 2xx or a 503 with Retry-After for the others.';
    return toResult('fail', answers, fix);
  }
  const result = await judgeOnce(endpoint, { id: event.id, answers });
  // If only one delivery reached the handler, the check does not show what a second delivery would do.
  const empty = answers.filter((answer) => isInconclusive(answer) || isRefusedWithoutCode(answer));
  const [first] = empty;
  if (result.verdict !== 'pass' || first === undefined || empty.length < CONCURRENT - 1) return result;
  const fix = codeOf(first) === undefined ? BUSY_BEFORE_IT : explainCode(first);
  return { ...result, verdict: 'not shown', fix };
}

const BUSY_BEFORE_IT =
  'All deliveries except one were refused without a `code`. A proxy with a rate limit responds like this, so these deliveries may not have reached the handler. Return a 2xx or the `code` ERR_EVENT_BUSY for a second delivery, or run this check without the proxy.';

/** Whether a proxy may have responded instead of the endpoint. */
function isRefusedWithoutCode(answer: EndpointAnswer): boolean {
  return !isDelivered(answer) && codeOf(answer) === undefined;
}

const BUSY: ReadonlySet<number> = new Set([409, 425, 429, 503]);

async function judgeOnce(
  endpoint: TestedEndpoint,
  { id, answers }: { readonly id: string; readonly answers: readonly EndpointAnswer[] },
): Promise<CheckResult> {
  const outcomes = answers.filter(isDelivered).map(outcomeOf);
  const handled = outcomes.filter((outcome) => outcome === 'handled').length;
  if (handled > 1) {
    // The endpoint remembers ids, but not in all of its processes.
    const fix = outcomes.includes('duplicate') ? SEPARATE_INBOXES : HANDLED_TWICE;
    return toResult('fail', answers, fix);
  }
  const effects = await countEffects(endpoint, { id, queued: answers.some(isQueued) });
  if (effects !== undefined) {
    if (effects === 1) return withEffects(toResult('pass', answers), effects);
    return withEffects(toResult('fail', answers, effects === 0 ? ACK_BEFORE_WORK : NO_DEDUPE), effects);
  }
  const shown =
    handled === 1 && outcomes.every((outcome) => outcome === 'handled' || outcome === 'duplicate');
  return shown ? toResult('pass', answers) : toResult('not shown', answers, SHOW_EFFECTS);
}

const NOT_RUN_YET =
  'The event is queued, but nothing ran it within the time limit (--timeout). See the log of the worker.';

/** Only `--effects` can show whether a delivery that got a 2xx took effect. */
export async function judgeEffect(
  endpoint: TestedEndpoint,
  { id, answer }: { readonly id: string; readonly answer: TestedAnswer },
): Promise<CheckResult> {
  const queued = isQueued(answer);
  const effects = await countEffects(endpoint, { id, queued });
  if (effects === undefined) return toResult('pass', [answer]);
  if (effects > 0) return withEffects(toResult('pass', [answer]), effects);
  const result = queued
    ? toResult('not shown', [answer], NOT_RUN_YET)
    : toResult('fail', [answer], ACK_BEFORE_WORK);
  return withEffects(result, effects);
}

function withEffects(result: CheckResult, effects: number): CheckResult {
  return { ...result, got: `${result.got}, ${countOf(effects, 'effect')}` };
}

const HANDLER_FAILED: ReadonlySet<string | undefined> = new Set([
  'ERR_HANDLER_FAILED',
  'ERR_HANDLER_TIMEOUT',
  'ERR_HANDLER_PERMANENT',
]);

const NOT_DONE: ReadonlySet<string | undefined> = new Set(['ERR_EVENT_BUSY', 'ERR_EVENT_NOT_DUE']);

/** Whether a stablehooks receiver returned a code that shows neither a failed handler nor an event in its inbox. */
function isInconclusive(answer: EndpointAnswer): boolean {
  const code = codeOf(answer);
  return findingOf(code) !== undefined && !HANDLER_FAILED.has(code) && !NOT_DONE.has(code);
}

function codeOf(answer: EndpointAnswer): string | undefined {
  return answer.kind === 'reply' ? answer.code : undefined;
}

function explainCode(answer: EndpointAnswer): string {
  const code = codeOf(answer);
  const { what, fix } = findingOf(code) ?? {};
  return `The response ${code} does not show what a handler did. ${what} ${fix ?? 'Run this check again.'}`;
}

const LET_IT_FAIL =
  'No handler failed. Make your handler throw when payload.doctor is "failing-handler". Or pass --effects with a URL that contains {id}, to show that the work is done before the 2xx.';
const FAILS_LATER =
  'The response says that the event is queued, so it does not show what happens after a failure. Pass --effects with a URL that contains {id}, and check that the queue retries.';

const ANSWER_5XX =
  'Return a 5xx when a handler fails. After a 4xx or no response, the service may not retry the event.';
const COUNTS_AS_DONE =
  'The failed event counts as done. Record an event as done after the work, not before it.';

/** The value `failing-handler` in `payload.doctor` asks the handler to fail. */
async function checkFailure(endpoint: TestedEndpoint): Promise<CheckResult> {
  const event = endpoint.event('failing-handler');
  const first = await endpoint.send(toBody(event));
  if (outcomeOf(first) === 'dead') return toResult('pass', [first]);
  if (isDelivered(first)) return judgeAcknowledged(endpoint, event.id, first);
  if (statusOf(first) < 500) return toResult('fail', [first], stoppedFix(first) ?? ANSWER_5XX);
  if (isInconclusive(first) || NOT_DONE.has(codeOf(first))) {
    return toResult('not shown', [first], explainCode(first));
  }
  const again = await endpoint.send(toBody(event));
  const answers = [first, again];
  if (isDelivered(again)) {
    return RIGHT_AFTER_FAILURE.has(outcomeOf(again))
      ? toResult('pass', answers)
      : toResult('fail', answers, COUNTS_AS_DONE);
  }
  if (statusOf(again) < 500) return toResult('fail', answers, stoppedFix(again) ?? ANSWER_5XX);
  if (isInconclusive(again)) return toResult('not shown', answers, explainCode(again));
  return toResult('pass', answers);
}

const RIGHT_AFTER_FAILURE: ReadonlySet<string | undefined> = new Set(['dead', 'handled', 'queued']);

/** The effect must exist when the 2xx arrives, unless the event is queued. */
async function judgeAcknowledged(
  endpoint: TestedEndpoint,
  id: string,
  answer: EndpointAnswer,
): Promise<CheckResult> {
  const queued = isQueued(answer);
  const effects = await countEffects(endpoint, { id, queued });
  if (effects) return withEffects(toResult('pass', [answer]), effects);
  if (queued) return toResult('not shown', [answer], FAILS_LATER);
  return effects === 0
    ? withEffects(toResult('fail', [answer], ACK_BEFORE_WORK), effects)
    : toResult('not shown', [answer], LET_IT_FAIL);
}

/** A queue might run a refused delivery, or a second job for the same event. */
const QUEUE_SETTLE_MS = 1_000;

function countUnwanted(endpoint: TestedEndpoint, id: string): Promise<number | undefined> {
  return awaitEffect(endpoint, id, QUEUE_SETTLE_MS);
}

/** Waits first, so that queued work has time to run and, if the endpoint is wrong, to run a second time. */
async function countEffects(
  endpoint: TestedEndpoint,
  { id, queued }: { readonly id: string; readonly queued: boolean },
): Promise<number | undefined> {
  const count = await awaitEffect(endpoint, id, queued ? endpoint.timeoutMs : 0);
  if (!queued || !count) return count;
  await wait(QUEUE_SETTLE_MS);
  return endpoint.effects(id);
}

async function awaitEffect(
  endpoint: TestedEndpoint,
  id: string,
  limitMs: number,
): Promise<number | undefined> {
  const deadline = performance.now() + limitMs;
  let count = await endpoint.effects(id);
  while (count === 0 && performance.now() < deadline) {
    await wait(100);
    count = await endpoint.effects(id);
  }
  return count;
}
