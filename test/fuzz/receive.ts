/** Sends mutated inputs to `receive` and compares what happens with what the docs promise. */
import fc from 'fast-check';
import {
  createReceiver,
  EVENT_TYPES,
  type Outcome,
  StablehooksError,
  toWebhookResponse,
  type UnknownEvent,
  type WebhookRequest,
  type WebhookResponse,
} from 'stablehooks';
import { judgeEvent, judgeSignature, sameJson } from './expected.js';
import { Input, MUTATION_NAMES, plan } from './inputs.js';
import type { RECEIVE_FAULTS } from './receive-faults.js';
import { type Counts, count, failed, one } from './steps.js';
import {
  MAX_BODY_BYTES,
  type MakeReceiver,
  openVariant,
  type Seen,
  VARIANT_CHOICES,
  VARIANT_NAMES,
  type Variant,
  variantOf,
} from './variants.js';

/** The name of a promise that is broken. Each has a fault that shows it. */
type Finding = keyof typeof RECEIVE_FAULTS | `another outcome than ${string}`;

/** The outcomes and codes of each kind and status, as docs/errors.md has them. */
const DOCUMENTED: Readonly<Record<string, readonly string[]>> = {
  'handled 200': ['handled'],
  'duplicate 200': ['duplicate'],
  'ignored 200': ['ignored'],
  'parked 200': ['parked'],
  'queued 202': ['queued'],
  'dead 200': ['dead', 'ERR_HANDLER_PERMANENT'],
  'busy 503': ['ERR_HANDLER_LATER', 'ERR_RECEIVER_CLOSED'],
  'rejected 400': ['ERR_EVENT_MALFORMED'],
  'rejected 401': ['MISSING', 'MALFORMED', 'MISMATCH']
    .map((why) => `ERR_SIGNATURE_${why}`)
    .concat('ERR_SECRET_UNKNOWN'),
  'rejected 405': ['ERR_METHOD_NOT_ALLOWED'],
  'rejected 413': ['ERR_BODY_TOO_LARGE'],
  'rejected 415': ['ERR_BODY_ENCODED'],
  'failed 500': ['INCOMPLETE', 'TIMEOUT', 'UNAVAILABLE']
    .map((why) => `ERR_BODY_${why}`)
    .concat('ERR_CONFIG_INVALID', 'ERR_HANDLER_FAILED'),
  'unavailable 503': ['ERR_SECRET_UNAVAILABLE'],
};

/** What must have run: every receiver, mutation, outcome and code. */
export const INPUT_KINDS: readonly string[] = [
  ...VARIANT_NAMES.map((name) => `receiver: ${name}`),
  ...MUTATION_NAMES,
  ...Object.values(DOCUMENTED).flatMap((names) => names.map((name) => `outcome: ${name}`)),
];

/** What the docs promise: an outcome or a code; of an authentic event, how often the handler, the inbox and the queue get it. */
interface Promised {
  readonly name: string;
  readonly times: readonly [handled: number, recorded: number, enqueued: number];
  readonly event?: UnknownEvent;
  readonly secretIndex?: number;
}

/** The ids of the events that a receiver accepted under a known type, and of those that it parked. */
interface Known {
  readonly accepted: Set<string>;
  readonly parked: Set<string>;
}

function promised({ variant, method, headers, body, bodyEnds }: Input, known: Known): Promised {
  const refused = (name: string): Promised => ({ name, times: [0, 0, 0] });
  if (variant.isClosed) return refused('ERR_RECEIVER_CLOSED');
  if (method !== 'POST') return refused('ERR_METHOD_NOT_ALLOWED');
  if (bodyEnds === 'header throws') return refused('ERR_CONFIG_INVALID');
  if (/\b(?:gzip|br)\b/i.test(headers.get('content-encoding') ?? '')) return refused('ERR_BODY_ENCODED');
  const signature = judgeSignature(headers.get(variant.header.toLowerCase()), variant, { ...variant, body });
  if (signature === 'missing') return refused('ERR_SIGNATURE_MISSING');
  if (signature === 'malformed') return refused('ERR_SIGNATURE_MALFORMED');
  if (bodyEnds === 'never') return refused('ERR_BODY_TIMEOUT');
  if (bodyEnds === 'incomplete') return refused('ERR_BODY_INCOMPLETE');
  if (bodyEnds !== 'whole') return refused('ERR_CONFIG_INVALID');
  if (body.length === 0) return refused('ERR_BODY_UNAVAILABLE');
  if (body.length > MAX_BODY_BYTES) return refused('ERR_BODY_TOO_LARGE');
  if (variant.source === 'fails') return refused('ERR_SECRET_UNAVAILABLE');
  if (variant.source === 'unknown sender') return refused('ERR_SECRET_UNKNOWN');
  if (signature === 'mismatch') return refused('ERR_SIGNATURE_MISMATCH');
  const event = judgeEvent(body);
  if (event === undefined) return refused('ERR_EVENT_MALFORMED');
  return { ...dispatched(variant, event, known), event, secretIndex: signature };
}

/** What the docs promise for an event. It is known afterwards. */
function dispatched({ handlers, answered }: Variant, { id, type }: UnknownEvent, known: Known): Promised {
  const { accepted, parked } = known;
  const isKnown = (EVENT_TYPES as readonly string[]).includes(type);
  // Nothing works off the queue, and these handlers never succeed.
  const isOpen = answered === 'enqueued' || handlers === 'throw' || handlers === 'throw RetryLater';
  if (accepted.has(id) && !isOpen) {
    return { name: handlers === 'throw PermanentError' ? 'dead' : 'duplicate', times: [0, 1, 0] };
  }
  if (!isKnown || (handlers === 'none' && parked.has(id))) {
    parked.add(id);
    return { name: 'parked', times: [0, 1, 0] };
  }
  accepted.add(id);
  if (answered === 'enqueued') return { name: 'queued', times: [0, 1, 1] };
  if (handlers === 'throw') return { name: 'ERR_HANDLER_FAILED', times: [1, 1, 0] };
  if (handlers === 'throw RetryLater') return { name: 'ERR_HANDLER_LATER', times: [1, 1, 0] };
  if (handlers === 'none') return { name: 'ignored', times: [0, 1, 0] };
  if (handlers === 'throw PermanentError') return { name: 'ERR_HANDLER_PERMANENT', times: [1, 1, 0] };
  // It is recorded before the answer, and claimed after it.
  return answered === 'recorded'
    ? { name: 'queued', times: [1, 2, 0] }
    : { name: 'handled', times: [1, 1, 0] };
}

/** The request of an input. `background` gets what continues after its answer. */
function toRequest(
  { method, url, headers, body, bodyEnds }: Input,
  background: Promise<unknown>[],
): WebhookRequest {
  return {
    method,
    url,
    waitUntil: (work) => void background.push(work),
    header(name) {
      if (bodyEnds === 'header throws') throw new Error('the request of the fuzzer throws');
      return headers.get(name.toLowerCase());
    },
    body(maxBytes) {
      if (bodyEnds === 'throws') throw new Error('the body of the fuzzer throws');
      return (async () => {
        if (bodyEnds === 'never') await new Promise(() => undefined);
        if (bodyEnds === 'is no bytes') return 'a string' as never;
        if (bodyEnds === 'rejects') throw new Error('the body of the fuzzer rejects');
        if (bodyEnds === 'incomplete') throw new StablehooksError('ERR_BODY_INCOMPLETE', 'It ended early.');
        if (body.length > maxBytes) throw new StablehooksError('ERR_BODY_TOO_LARGE', 'It is too large.');
        return body;
      })();
    },
  };
}

const shown = ({ kind, error }: Outcome) => error?.code ?? kind;

/** Whether the response is the one of the docs for the outcome. */
function isDocumented(outcome: Outcome, { status, headers, body }: WebhookResponse): boolean {
  const { kind, error } = outcome;
  const isSuccess = kind === 'dead' || error === undefined;
  const said = JSON.parse(body);
  const code = error?.code === 'ERR_SECRET_UNKNOWN' ? 'ERR_SIGNATURE_MISMATCH' : error?.code;
  return (
    DOCUMENTED[`${kind} ${status}`]?.includes(shown(outcome)) === true &&
    said.outcome === kind &&
    said.code === (isSuccess ? undefined : code) &&
    (isSuccess || said.status === status) &&
    headers['content-type'] === `application/${isSuccess ? '' : 'problem+'}json` &&
    (status !== 503 || /^[1-9]\d*$/.test(headers['retry-after'] ?? '')) &&
    (status !== 405 || headers['allow'] === 'POST')
  );
}

/** What an error and its causes say. */
function textsOf(error: unknown, depth = 0): string {
  if (typeof error !== 'object' || error === null || depth > 8) return String(error);
  return Object.getOwnPropertyNames(error)
    .map((name) => textsOf(Reflect.get(error, name), depth + 1))
    .join('\n');
}

/** What is fuzzed. A test of the fuzzer itself gives parts with a fault. */
export interface Parts {
  /** @default createReceiver */
  readonly make?: MakeReceiver;
  /** @default toWebhookResponse */
  readonly respond?: typeof toWebhookResponse;
}

/** Sends inputs to one receiver, and compares. */
async function sendAll(
  variant: Variant,
  inputs: readonly Input[],
  { counts, parts }: { readonly counts: Counts; readonly parts: Parts },
): Promise<void> {
  const { make = createReceiver, respond = toWebhookResponse } = parts;
  const seen: Seen = { handled: [], recorded: [], enqueued: [], lines: [] };
  const known: Known = { accepted: new Set(), parked: new Set() };
  const receiver = await openVariant(variant, make, seen);
  for (const input of inputs) {
    for (const list of Object.values(seen)) list.length = 0;
    const background: Promise<unknown>[] = [];
    const outcome = await receiver.receive(toRequest(input, background));
    await Promise.all(background);
    // What runs without waitUntil counts, too.
    await new Promise((resolve) => setImmediate(resolve));
    const response = respond(outcome);
    const { name, times, event, secretIndex } = promised(input, known);
    const got = (events: readonly unknown[], count: number) =>
      events.length === count && events.every((one) => sameJson(one, event));
    const hides = (text: string) => !input.confidential.some((secret) => text.includes(secret));
    const wrong = failed<Finding>({
      [`another outcome than ${name}: ${shown(outcome)}`]: shown(outcome) === name,
      'another response': isDocumented(outcome, response),
      'the outcome names another secret': event === undefined || outcome.secretIndex === secretIndex,
      'the outcome has another event': event === undefined || sameJson(outcome.event, event),
      'a handler got other events': got(seen.handled, times[0]),
      'the inbox got other events': got(seen.recorded, times[1]),
      'the queue got other events': got(seen.enqueued, times[2]),
      'the response contains something confidential': hides(JSON.stringify(response)),
      'a line of the log contains something confidential': hides(seen.lines.join('\n')),
      'an error contains something confidential': hides(textsOf(outcome.error)),
    });
    if (wrong.length > 0) throw new Error(wrong.join('\n'));
    count(counts, `outcome: ${shown(outcome)}`);
  }
  await receiver.close();
}

export interface FuzzReport {
  readonly sent: number;
  readonly counts: Counts;
  /** What fast-check reports on the smallest counterexample. */
  readonly failure: string | undefined;
}

/** The inputs of a run go to one receiver. Uniform, because small cases are for the shrinker. */
const deliveries = fc.noBias(
  fc.record({
    receiver: one(...VARIANT_CHOICES),
    plans: fc.array(plan, { minLength: 1, maxLength: 50, size: 'max' }),
  }),
);

type Options = Pick<fc.Parameters, 'seed' | 'path' | 'numRuns' | 'endOnFailure' | 'timeout'>;

/** Runs receivers with 25 inputs each on average, 100 of them unless `numRuns` says otherwise. */
export async function fuzzReceive(options: Options, parts: Parts = {}): Promise<FuzzReport> {
  const counts: Counts = {};
  let sent = 0;
  const property = fc.asyncProperty(deliveries, async ({ receiver, plans }) => {
    const variant = variantOf(receiver);
    const inputs = plans.map((chosen, at) => new Input(chosen, at, variant));
    await sendAll(variant, inputs, { counts, parts });
    sent += plans.length;
    count(counts, `receiver: ${receiver}`, plans.length);
    for (const { steps } of plans) for (const { name } of steps) count(counts, name);
  });
  // A wait takes a few turns of the event loop; shrinking one that never ends takes this long each time.
  const limits = { timeout: 10_000, interruptAfterTimeLimit: 90_000 };
  const result = await fc.check(property, { ...limits, ...options, includeErrorInReport: true });
  return { sent, counts, failure: result.failed ? fc.defaultReportMessage(result) : undefined };
}
