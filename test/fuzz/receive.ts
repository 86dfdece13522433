/** Sends mutated inputs to `receive` and compares what happens with what the docs promise. */
import {
  createReceiver,
  EVENT_TYPES,
  type Outcome,
  type Receiver,
  StablehooksError,
  toWebhookResponse,
  type WebhookRequest,
  type WebhookResponse,
} from 'stablehooks';
import { judgeEvent, judgeSignature, type ParsedJson, sameJson } from './expected.js';
import { type Input, MUTATION_NAMES, makeInput } from './inputs.js';
import {
  MAX_BODY_BYTES,
  type MakeReceiver,
  openVariant,
  type Seen,
  type Variant,
  type VariantName,
  variantsOf,
} from './variants.js';
import { createVirtualTime } from './virtual-time.js';

/** Who can get an event. */
const PLACES = ['a handler', 'the inbox', 'the queue'] as const;

/** Every kind of finding. `receive-faults.ts` has a fault of each. */
export const RECEIVE_FINDINGS = [
  'receive never resolves',
  'receive rejects',
  'what runs after the answer does not resolve',
  'another outcome',
  'another kind of outcome than its code has',
  'the outcome names another secret',
  'the outcome has another event than JSON.parse',
  ...PLACES.flatMap(
    (place) =>
      [
        `${place} got an event of a refused delivery`,
        `${place} got the event another number of times`,
        `${place} got another event than JSON.parse`,
      ] as const,
  ),
  'the response has another status',
  'the response names another outcome',
  'the response has another code',
  'the response has another content-type',
  '503 without Retry-After',
  '405 without Allow',
  'the response contains something confidential',
  'a line of the log contains something confidential',
  'an error contains something confidential',
  'the process ends or takes too long',
] as const;

export type ReceiveFinding = (typeof RECEIVE_FINDINGS)[number];

interface Wrong {
  readonly kind: ReceiveFinding;
  readonly detail?: string;
}

/** Something that must not happen, and the input that shows it. */
export interface Finding {
  readonly kind: ReceiveFinding;
  /** The kind and its detail. */
  readonly what: string;
  readonly seed: number;
  readonly index: number;
  /** The mutations that are needed for it; with those of earlier inputs of the batch if they say so. */
  readonly steps: readonly string[];
  /** The input without what is confidential. */
  readonly input: string;
}

export interface ReceiveReport {
  readonly inputs: number;
  readonly findings: readonly Finding[];
  readonly outcomes: Readonly<Record<string, number>>;
  readonly mutations: Readonly<Record<string, number>>;
}

/**
 * The inputs of a batch share their receivers, so that events come again. They are fewer than an inbox has room for: no
 * event is forgotten.
 */
export const BATCH = 500;

/** A run ends early when it has found this many. */
const MAX_FINDINGS = 5;

/** The kind and the status of each outcome and code, as docs/errors.md has them. */
const DOCUMENTED: Readonly<Record<string, readonly [kind: string, status: number]>> = {
  handled: ['handled', 200],
  duplicate: ['duplicate', 200],
  ignored: ['ignored', 200],
  parked: ['parked', 200],
  queued: ['queued', 202],
  dead: ['dead', 200],
  ERR_HANDLER_PERMANENT: ['dead', 200],
  ERR_HANDLER_LATER: ['busy', 503],
  ERR_SIGNATURE_MISSING: ['rejected', 401],
  ERR_SIGNATURE_MALFORMED: ['rejected', 401],
  ERR_SIGNATURE_MISMATCH: ['rejected', 401],
  ERR_SECRET_UNKNOWN: ['rejected', 401],
  ERR_METHOD_NOT_ALLOWED: ['rejected', 405],
  ERR_BODY_ENCODED: ['rejected', 415],
  ERR_BODY_TOO_LARGE: ['rejected', 413],
  ERR_EVENT_MALFORMED: ['rejected', 400],
  ERR_BODY_INCOMPLETE: ['failed', 500],
  ERR_BODY_TIMEOUT: ['failed', 500],
  ERR_CONFIG_INVALID: ['failed', 500],
  ERR_HANDLER_FAILED: ['failed', 500],
  ERR_SECRET_UNAVAILABLE: ['unavailable', 503],
  ERR_RECEIVER_CLOSED: ['busy', 503],
};

/** What the docs promise for an input. */
type Expected = { readonly code: string } | { readonly event: ParsedJson; readonly secretIndex: number };

function judge({ variant, method, headers, body, bodyEnds }: Input): Expected {
  if (variant.isClosed) return { code: 'ERR_RECEIVER_CLOSED' };
  if (method !== 'POST') return { code: 'ERR_METHOD_NOT_ALLOWED' };
  if (bodyEnds === 'header throws') return { code: 'ERR_CONFIG_INVALID' };
  if (/\b(?:gzip|br)\b/i.test(headers.get('content-encoding') ?? '')) return { code: 'ERR_BODY_ENCODED' };
  const signature = judgeSignature(headers.get(variant.header.toLowerCase()), variant, { ...variant, body });
  if (signature === 'missing') return { code: 'ERR_SIGNATURE_MISSING' };
  if (signature === 'malformed') return { code: 'ERR_SIGNATURE_MALFORMED' };
  if (bodyEnds === 'never') return { code: 'ERR_BODY_TIMEOUT' };
  if (bodyEnds === 'incomplete') return { code: 'ERR_BODY_INCOMPLETE' };
  if (bodyEnds !== 'whole') return { code: 'ERR_CONFIG_INVALID' };
  if (body.length > MAX_BODY_BYTES) return { code: 'ERR_BODY_TOO_LARGE' };
  if (variant.source === 'fails') return { code: 'ERR_SECRET_UNAVAILABLE' };
  if (variant.source === 'unknown sender') return { code: 'ERR_SECRET_UNKNOWN' };
  if (signature === 'mismatch') return { code: 'ERR_SIGNATURE_MISMATCH' };
  const event = judgeEvent(body);
  return event === undefined ? { code: 'ERR_EVENT_MALFORMED' } : { event, secretIndex: signature };
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
    body(maxBytes): Promise<Uint8Array> {
      if (bodyEnds === 'throws') throw new Error('the body of the fuzzer throws');
      if (bodyEnds === 'rejects') return Promise.reject(new Error('the body of the fuzzer rejects'));
      if (bodyEnds === 'incomplete')
        return Promise.reject(new StablehooksError('ERR_BODY_INCOMPLETE', 'It ended early.'));
      if (bodyEnds === 'never') return new Promise(() => undefined);
      if (bodyEnds === 'is no bytes') return Promise.resolve('a string') as Promise<never>;
      if (body.length > maxBytes)
        return Promise.reject(new StablehooksError('ERR_BODY_TOO_LARGE', 'It is too large.'));
      return Promise.resolve(body);
    },
  };
}

function textsOf(thrown: unknown): string {
  const texts: string[] = [];
  let error = thrown;
  for (let depth = 0; depth < 8 && typeof error === 'object' && error !== null; depth += 1) {
    for (const name of Object.getOwnPropertyNames(error)) {
      const value: unknown = Reflect.get(error, name);
      if (typeof value !== 'object' && typeof value !== 'function') texts.push(String(value));
      else if (Array.isArray(value)) texts.push(value.join());
    }
    error = Reflect.get(error, 'cause');
  }
  return texts.join('\n');
}

/** What is fuzzed. A test of the fuzzer itself gives parts with a fault. */
export interface Parts {
  /** @default createReceiver */
  readonly make?: MakeReceiver;
  /** @default toWebhookResponse */
  readonly respond?: typeof toWebhookResponse;
}

/** The receivers of one batch, and what is known of the events that they got. */
class Batch {
  readonly #time = createVirtualTime();
  readonly #seen = { handled: [], recorded: [], enqueued: [], lines: [] } satisfies Seen;
  readonly #receivers = new Map<VariantName, Receiver>();
  /** The receivers and ids of the events that were accepted under a known type. */
  readonly #accepted = new Set<string>();
  readonly #parked = new Set<string>();
  readonly #make: MakeReceiver;
  readonly #respond: typeof toWebhookResponse;

  constructor({ make = createReceiver, respond = toWebhookResponse }: Parts) {
    this.#make = make;
    this.#respond = respond;
  }

  async send(input: Input): Promise<{ readonly wrong: readonly Wrong[]; readonly outcome: string }> {
    const receiver = await this.#receiverOf(input.variant);
    for (const seen of Object.values(this.#seen)) seen.length = 0;
    const background: Promise<unknown>[] = [];
    const ended = await this.#time.settle(() => receiver.receive(toRequest(input, background)));
    if (ended === undefined) return { wrong: [{ kind: 'receive never resolves' }], outcome: 'none' };
    if ('error' in ended) return { wrong: [{ kind: 'receive rejects' }], outcome: 'none' };
    const { value: outcome } = ended;
    const wrong: Wrong[] = [];
    const continued = await this.#time.settle(() => Promise.all(background));
    if (continued === undefined || 'error' in continued) {
      wrong.push({ kind: 'what runs after the answer does not resolve' });
    }
    // What runs without waitUntil counts, too.
    await new Promise((resolve) => setImmediate(resolve));
    const response = this.#respond(outcome);
    wrong.push(
      ...this.#wrongOutcome(input, outcome),
      ...wrongResponse(outcome, response),
      ...this.#leaks(input, outcome, response),
    );
    return { wrong, outcome: shown(outcome) };
  }

  async #receiverOf(variant: Variant): Promise<Receiver> {
    const open = this.#receivers.get(variant.name);
    if (open !== undefined) return open;
    const { runtime } = this.#time;
    const receiver = await openVariant(variant, { make: this.#make, seen: this.#seen, runtime });
    this.#receivers.set(variant.name, receiver);
    return receiver;
  }

  /** Compares the outcome, and what the handler, the inbox and the queue got, with what the docs promise. */
  #wrongOutcome(input: Input, outcome: Outcome): Wrong[] {
    const got = {
      'a handler': this.#seen.handled,
      'the inbox': this.#seen.recorded,
      'the queue': this.#seen.enqueued,
    };
    const expected = judge(input);
    const wrong: Wrong[] = [];
    if ('code' in expected) {
      if (outcome.error?.code !== expected.code) wrong.push(another(outcome, expected.code));
      for (const place of PLACES) {
        if (got[place].length > 0) wrong.push({ kind: `${place} got an event of a refused delivery` });
      }
      return wrong;
    }
    const { event, secretIndex } = expected;
    const key = `${input.variant.name} ${event.id}`;
    const isKnown = (EVENT_TYPES as readonly string[]).includes(event.type);
    const promise = promised(input.variant, {
      isKnown,
      isAgain: this.#accepted.has(key),
      isParked: this.#parked.has(key),
    });
    if (promise.outcome === 'parked') this.#parked.add(key);
    else if (isKnown) this.#accepted.add(key);
    if (shown(outcome) !== promise.outcome) wrong.push(another(outcome, promise.outcome));
    if (outcome.secretIndex !== secretIndex) wrong.push({ kind: 'the outcome names another secret' });
    if (!sameJson(outcome.event, event))
      wrong.push({ kind: 'the outcome has another event than JSON.parse' });
    for (const place of PLACES) {
      const [events, times] = [got[place], promise[place]];
      if (events.length !== times) {
        const detail = `${events.length} instead of ${times}`;
        wrong.push({ kind: `${place} got the event another number of times`, detail });
      }
      if (!events.every((one) => sameJson(one, event))) {
        wrong.push({ kind: `${place} got another event than JSON.parse` });
      }
    }
    return wrong;
  }

  #leaks({ confidential }: Input, outcome: Outcome, response: WebhookResponse): Wrong[] {
    const leaksIn = (text: string) => confidential.some((secret) => text.includes(secret));
    const wrong: Wrong[] = [];
    if (leaksIn(JSON.stringify(response))) {
      wrong.push({ kind: 'the response contains something confidential' });
    }
    if (leaksIn(this.#seen.lines.join('\n'))) {
      wrong.push({ kind: 'a line of the log contains something confidential' });
    }
    if (leaksIn(textsOf(outcome.error))) wrong.push({ kind: 'an error contains something confidential' });
    return wrong;
  }
}

const shown = ({ kind, error }: Outcome) => error?.code ?? kind;

const another = (outcome: Outcome, expected: string): Wrong => ({
  kind: 'another outcome',
  detail: `${shown(outcome)} instead of ${expected}`,
});

/** What the docs promise for an accepted event: its outcome, and how often each place gets it. */
function promised(
  { handlers, answered }: Variant,
  {
    isKnown,
    isAgain,
    isParked,
  }: {
    readonly isKnown: boolean;
    /** Whether it was accepted under a known type before. One that was only parked runs like a new one. */
    readonly isAgain: boolean;
    /** Whether it was parked before: without a handler it stays so. */
    readonly isParked: boolean;
  },
): { readonly outcome: string } & Readonly<Record<(typeof PLACES)[number], number>> {
  const promise = (outcome: string, runs = 0, jobs = 0, steps = 1) => ({
    outcome,
    'a handler': runs,
    'the inbox': steps,
    'the queue': jobs,
  });
  // Nothing works off the queue, so that its events are never done.
  if (answered === 'enqueued') return isKnown ? promise('queued', 0, 1) : promise('parked');
  if (handlers === 'throw') return isKnown ? promise('ERR_HANDLER_FAILED', 1) : promise('parked');
  if (handlers === 'throw RetryLater') return isKnown ? promise('ERR_HANDLER_LATER', 1) : promise('parked');
  const isDead = isAgain && handlers === 'throw PermanentError';
  if (isKnown && handlers === 'none' && !isAgain) return promise(isParked ? 'parked' : 'ignored');
  if (isAgain) return promise(isDead ? 'dead' : 'duplicate');
  if (!isKnown) return promise('parked');
  if (handlers === 'throw PermanentError') return promise('ERR_HANDLER_PERMANENT', 1);
  // It is recorded before the answer, and claimed after it.
  return answered === 'recorded' ? promise('queued', 1, 0, 2) : promise('handled', 1);
}

function wrongResponse(outcome: Outcome, { status, headers, body }: WebhookResponse): Wrong[] {
  const code = outcome.error?.code;
  const [kind, documented] = DOCUMENTED[shown(outcome)] ?? [];
  const isSuccess = outcome.kind === 'dead' || code === undefined;
  const said = JSON.parse(body);
  const shownCode = code === 'ERR_SECRET_UNKNOWN' ? 'ERR_SIGNATURE_MISMATCH' : code;
  const wrong: Wrong[] = [];
  if (outcome.kind !== kind) wrong.push({ kind: 'another kind of outcome than its code has' });
  if (status !== documented || (!isSuccess && said.status !== status)) {
    wrong.push({ kind: 'the response has another status', detail: `${status} for ${shown(outcome)}` });
  }
  if (said.outcome !== outcome.kind) wrong.push({ kind: 'the response names another outcome' });
  if (said.code !== (isSuccess ? undefined : shownCode))
    wrong.push({ kind: 'the response has another code' });
  if (headers['content-type'] !== `application/${isSuccess ? '' : 'problem+'}json`) {
    wrong.push({ kind: 'the response has another content-type' });
  }
  if (status === 503 && !/^[1-9]\d*$/.test(headers['retry-after'] ?? '')) {
    wrong.push({ kind: '503 without Retry-After' });
  }
  if (status === 405 && headers['allow'] !== 'POST') wrong.push({ kind: '405 without Allow' });
  return wrong;
}

/** Runs inputs `from` to `to`; both are multiples of {@link BATCH}, unless the last batch is to end early. */
export async function fuzzReceive({
  seed,
  from,
  to,
  ...parts
}: Parts & { readonly seed: number; readonly from: number; readonly to: number }): Promise<ReceiveReport> {
  const outcomes: Record<string, number> = {};
  const mutations: Record<string, number> = {};
  const findings: Finding[] = [];
  let batch = new Batch(parts);
  let variants = variantsOf(seed, Math.floor(from / BATCH));
  let inputs = 0;
  for (let index = from; index < to && findings.length < MAX_FINDINGS; index += 1) {
    if (index % BATCH === 0) {
      batch = new Batch(parts);
      variants = variantsOf(seed, index / BATCH);
    }
    const made = { seed, index, variants };
    const input = makeInput(made);
    const { wrong, outcome } = await batch.send(input);
    inputs += 1;
    count(outcomes, outcome);
    for (const step of input.steps) count(mutations, step);
    for (const one of wrong) findings.push(await reduce(one, { ...made, parts }));
  }
  return { inputs, findings, outcomes, mutations };
}

/** The same finding with as few mutations as possible, on receivers that got nothing before. */
async function reduce(
  { kind, detail }: Wrong,
  { parts, ...made }: Parameters<typeof makeInput>[0] & { readonly parts: Parts },
): Promise<Finding> {
  const { seed, index } = made;
  const shows = async (keep: (place: number) => boolean) => {
    const { wrong } = await new Batch(parts).send(makeInput(made, keep));
    return wrong.some((one) => one.kind === kind && one.detail === detail);
  };
  const found = { kind, what: detail === undefined ? kind : `${kind}: ${detail}`, seed, index };
  if (!(await shows(() => true))) {
    const whole = makeInput(made);
    const steps = [...whole.steps, 'after the earlier inputs of the batch'];
    return { ...found, steps, input: describe(whole) };
  }
  const dropped = new Set<number>();
  for (let place = 0; place < 3; place += 1) {
    if (await shows((other) => other !== place && !dropped.has(other))) dropped.add(place);
  }
  const least = makeInput(made, (place) => !dropped.has(place));
  return { ...found, steps: least.steps, input: describe(least) };
}

/** An input as a person can read it, without what is confidential. */
function describe({ variant, method, body, bodyEnds, headers, confidential }: Input): string {
  const signature = headers.get(variant.header.toLowerCase()) ?? 'none';
  const start = Buffer.from(body).toString('latin1').slice(0, 300);
  const text = JSON.stringify({ receiver: variant.name, method, body: start, bytes: body.length, bodyEnds });
  const redacted = confidential.reduce((rest, secret) => rest.replaceAll(secret, '(redacted)'), text);
  return `${redacted}, signature of ${signature.length} characters`;
}

function count(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

export function addCounts(
  one: Readonly<Record<string, number>>,
  other: Readonly<Record<string, number>>,
): Record<string, number> {
  const sum: Record<string, number> = { ...one };
  for (const [name, value] of Object.entries(other)) sum[name] = (sum[name] ?? 0) + value;
  return sum;
}

export function notShown({
  outcomes,
  mutations,
}: Pick<ReceiveReport, 'outcomes' | 'mutations'>): readonly string[] {
  return [
    ...Object.keys(DOCUMENTED).filter((name) => !(name in outcomes)),
    ...MUTATION_NAMES.filter((name) => !(name in mutations)),
  ];
}
