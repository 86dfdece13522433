/** Sends mutated inputs to `receive` and compares what happens with what the docs promise. */
import {
  createReceiver,
  EVENT_TYPES,
  type Outcome,
  type Receiver,
  RequestError,
  toWebhookResponse,
  type WebhookRequest,
} from 'stablehooks';
import { judgeEvent, judgeSignature, type ParsedJson, sameJson } from './expected.js';
import { type Input, MUTATION_NAMES, makeInput } from './inputs.js';
import {
  MAX_BODY_BYTES,
  type MakeReceiver,
  openVariant,
  type Seen,
  type VariantName,
  variantsOf,
} from './variants.js';
import { createVirtualTime, type VirtualTime } from './virtual-time.js';

/** Something that must not happen, and the input that shows it. */
export interface Finding {
  readonly what: string;
  readonly seed: number;
  readonly index: number;
  /** The mutations that are needed for it; with those of earlier inputs of the batch if they say so. */
  readonly steps: readonly string[];
  /** The input without what is confidential. */
  readonly input: string;
}

/** What a run showed. */
export interface ReceiveReport {
  readonly inputs: number;
  readonly findings: readonly Finding[];
  /** How often each kind and code of an outcome occurred. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** How often each mutation was applied. */
  readonly mutations: Readonly<Record<string, number>>;
}

/** The inputs of a batch share their receivers, so that events come again. */
export const BATCH = 500;

/** A run ends early when it has found this many. */
const MAX_FINDINGS = 5;

const KINDS = [
  'handled',
  'duplicate',
  'ignored',
  'parked',
  'queued',
  'dead',
  'rejected',
  'failed',
  'busy',
  'unavailable',
];

/** The status of each outcome and code, as docs/errors.md has them. */
const STATUS: Readonly<Record<string, number>> = {
  ...{ handled: 200, duplicate: 200, ignored: 200, parked: 200, queued: 202, dead: 200 },
  ...{
    ERR_SIGNATURE_MISSING: 401,
    ERR_SIGNATURE_MALFORMED: 401,
    ERR_SIGNATURE_MISMATCH: 401,
    ERR_SECRET_UNKNOWN: 401,
  },
  ...{
    ERR_METHOD_NOT_ALLOWED: 405,
    ERR_BODY_ENCODED: 415,
    ERR_BODY_TOO_LARGE: 413,
    ERR_EVENT_MALFORMED: 400,
  },
  ...{ ERR_BODY_INCOMPLETE: 500, ERR_BODY_TIMEOUT: 500, ERR_BODY_UNAVAILABLE: 500, ERR_CONFIG_INVALID: 500 },
  ...{ ERR_HANDLER_FAILED: 500, ERR_SECRET_UNAVAILABLE: 503, ERR_RECEIVER_CLOSED: 503 },
};

/** What the docs promise for an input. */
type Expected = { readonly code: string } | { readonly event: ParsedJson; readonly secretIndex: number };

function judge({ variant, method, headers, body, bodyEnds }: Input): Expected {
  if (variant.isClosed) return { code: 'ERR_RECEIVER_CLOSED' };
  if (method !== 'POST') return { code: 'ERR_METHOD_NOT_ALLOWED' };
  if (bodyEnds === 'header throws') return { code: 'ERR_CONFIG_INVALID' };
  const encoding = (headers.get('content-encoding') ?? '').trim().toLowerCase();
  if (encoding !== '' && encoding !== 'identity') return { code: 'ERR_BODY_ENCODED' };
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

function toRequest({ method, url, headers, body, bodyEnds }: Input): WebhookRequest {
  return {
    method,
    url,
    header(name) {
      if (bodyEnds === 'header throws') throw new Error('the request of the fuzzer throws');
      return headers.get(name.toLowerCase());
    },
    body(maxBytes): Promise<Uint8Array> {
      if (bodyEnds === 'throws') throw new Error('the body of the fuzzer throws');
      if (bodyEnds === 'rejects') return Promise.reject(new Error('the body of the fuzzer rejects'));
      if (bodyEnds === 'incomplete')
        return Promise.reject(new RequestError('ERR_BODY_INCOMPLETE', 'It ended early.'));
      if (bodyEnds === 'never') return new Promise(() => undefined);
      if (bodyEnds === 'is no bytes') return Promise.resolve('a string') as Promise<never>;
      if (body.length > maxBytes)
        return Promise.reject(new RequestError('ERR_BODY_TOO_LARGE', 'It is too large.'));
      return Promise.resolve(body);
    },
  };
}

/** Everything that an error says: it and its causes. */
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

/** The receivers of one batch, and what is known of the events that they got. */
class Batch {
  readonly time: VirtualTime = createVirtualTime();
  readonly #seen: Seen = { handled: [], lines: [] };
  readonly #receivers = new Map<VariantName, Receiver>();
  /** The first events that were accepted, by receiver and id. */
  readonly #accepted = new Set<string>();
  readonly #make: MakeReceiver;

  constructor(make: MakeReceiver) {
    this.#make = make;
  }

  /** Sends one input. Returns what is wrong, and the outcome. */
  async send(input: Input): Promise<{ readonly wrong: readonly string[]; readonly outcome: string }> {
    const { variant } = input;
    let receiver = this.#receivers.get(variant.name);
    if (receiver === undefined) {
      const runtime = this.time.runtime;
      receiver = await openVariant(variant, { make: this.#make, seen: this.#seen, runtime });
      this.#receivers.set(variant.name, receiver);
    }
    this.#seen.handled.length = 0;
    this.#seen.lines.length = 0;
    const ended = await this.time.settle(() => receiver.receive(toRequest(input)));
    if (ended === undefined) return { wrong: ['receive never resolves'], outcome: 'none' };
    if ('error' in ended) return { wrong: ['receive rejects'], outcome: 'none' };
    const { value: outcome } = ended;
    return {
      wrong: [
        ...this.#wrongOutcome(input, outcome),
        ...wrongResponse(outcome),
        ...this.#leaks(input, outcome),
      ],
      outcome: outcome.error?.code ?? outcome.kind,
    };
  }

  #wrongOutcome(input: Input, outcome: Outcome): string[] {
    const { variant } = input;
    const { handled } = this.#seen;
    const expected = judge(input);
    if (!KINDS.includes(outcome.kind)) return ['the outcome is of no documented kind'];
    if ('code' in expected) {
      const wrong =
        outcome.error?.code === expected.code ? [] : [`${shown(outcome)} instead of ${expected.code}`];
      if (handled.length > 0) wrong.push('a handler ran for a delivery that must be refused');
      return wrong;
    }
    const { event, secretIndex } = expected;
    const key = `${variant.name} ${event.id}`;
    const isFirst = !this.#accepted.has(key);
    this.#accepted.add(key);
    const isKnown = (EVENT_TYPES as readonly string[]).includes(event.type);
    const [kinds, runs] = promised(variant, { isFirst, isKnown });
    const wrong: string[] = [];
    if (!kinds.includes(outcome.error?.code ?? outcome.kind))
      wrong.push(`${shown(outcome)} instead of ${kinds.join(' or ')}`);
    if (!runs.includes(handled.length))
      wrong.push(`the handler ran ${handled.length} times instead of ${runs.join(' or ')}`);
    if (outcome.secretIndex !== secretIndex) wrong.push('the outcome names another secret');
    if (!sameJson(outcome.event, event)) wrong.push('the outcome has another event than JSON.parse');
    for (const got of handled)
      if (!sameJson(got, event)) wrong.push('the handler got another event than JSON.parse');
    return wrong;
  }

  #leaks({ confidential }: Input, outcome: Outcome): string[] {
    const response = JSON.stringify(toWebhookResponse(outcome));
    const lines = this.#seen.lines.join('\n');
    const errors = textsOf(outcome.error);
    const leaksIn = (text: string) => text !== '' && confidential.some((secret) => text.includes(secret));
    const wrong: string[] = [];
    if (leaksIn(response)) wrong.push('the response contains something confidential');
    if (leaksIn(lines)) wrong.push('a line of the log contains something confidential');
    if (leaksIn(errors)) wrong.push('an error contains something confidential');
    return wrong;
  }
}

const shown = ({ kind, error }: Outcome) => error?.code ?? kind;

/** How an accepted event can end, and how often its handler can run. */
function promised(
  { handlers, hasQueue }: Input['variant'],
  { isFirst, isKnown }: { readonly isFirst: boolean; readonly isKnown: boolean },
): readonly [outcomes: readonly string[], runs: readonly number[]] {
  if (!isFirst && !isKnown) return [['parked', 'duplicate', 'dead'], [0]];
  if (!isKnown) return [['parked'], [0]];
  if (hasQueue) return [['queued'], [0]];
  if (handlers === 'throw') return [['ERR_HANDLER_FAILED'], [1]];
  if (handlers === 'none') return [isFirst ? ['ignored'] : ['ignored', 'duplicate'], [0]];
  // An event that was parked under another type before is run.
  if (handlers === 'throw PermanentError') {
    return isFirst
      ? [['ERR_HANDLER_PERMANENT'], [1]]
      : [
          ['dead', 'ERR_HANDLER_PERMANENT'],
          [0, 1],
        ];
  }
  return isFirst
    ? [['handled'], [1]]
    : [
        ['duplicate', 'handled'],
        [0, 1],
      ];
}

function wrongResponse(outcome: Outcome): string[] {
  const { status, headers, body } = toWebhookResponse(outcome);
  const code = outcome.error?.code;
  const isSuccess = code === undefined || outcome.kind === 'dead';
  const wrong: string[] = [];
  if (status !== STATUS[isSuccess ? outcome.kind : code])
    wrong.push(`${shown(outcome)} is answered ${status}`);
  const said = JSON.parse(body);
  const shownCode = code === 'ERR_SECRET_UNKNOWN' ? 'ERR_SIGNATURE_MISMATCH' : code;
  if (said.outcome !== outcome.kind) wrong.push('the response names another outcome');
  if (!isSuccess && (said.code !== shownCode || said.status !== status))
    wrong.push('the response has another code or status');
  if (headers['content-type'] !== `application/${isSuccess ? '' : 'problem+'}json`)
    wrong.push('wrong content-type');
  if (status === 503 && !/^[1-9]\d*$/.test(headers['retry-after'] ?? ''))
    wrong.push('503 without Retry-After');
  if (status === 405 && headers['allow'] !== 'POST') wrong.push('405 without Allow');
  return wrong;
}

/** Runs inputs `from` to `to`; both are multiples of {@link BATCH}, unless the last batch is to end early. */
export async function fuzzReceive({
  seed,
  from,
  to,
  make = createReceiver,
}: {
  readonly seed: number;
  readonly from: number;
  readonly to: number;
  readonly make?: MakeReceiver;
}): Promise<ReceiveReport> {
  const outcomes: Record<string, number> = {};
  const mutations: Record<string, number> = {};
  const findings: Finding[] = [];
  let batch = new Batch(make);
  let variants = variantsOf(seed, Math.floor(from / BATCH));
  let inputs = 0;
  for (let index = from; index < to && findings.length < MAX_FINDINGS; index += 1) {
    if (index % BATCH === 0) {
      batch = new Batch(make);
      variants = variantsOf(seed, index / BATCH);
    }
    const made = { seed, index, variants };
    const input = makeInput(made);
    const { wrong, outcome } = await batch.send(input);
    inputs += 1;
    count(outcomes, outcome);
    for (const step of input.steps) count(mutations, step);
    for (const what of new Set(wrong)) findings.push(await reduce(what, { ...made, make }));
  }
  return { inputs, findings, outcomes, mutations };
}

/** The same finding with as few mutations as possible, on receivers that got nothing before. */
async function reduce(
  what: string,
  { make, ...made }: Parameters<typeof makeInput>[0] & { readonly make: MakeReceiver },
): Promise<Finding> {
  const shows = async (keep: (place: number) => boolean) =>
    (await new Batch(make).send(makeInput(made, keep))).wrong.includes(what);
  const { seed, index } = made;
  if (!(await shows(() => true))) {
    const { steps } = makeInput(made);
    return {
      what,
      seed,
      index,
      steps: [...steps, 'after the earlier inputs of the batch'],
      input: describe(makeInput(made)),
    };
  }
  const dropped = new Set<number>();
  for (let place = 0; place < 3; place += 1) {
    if (await shows((other) => other !== place && !dropped.has(other))) dropped.add(place);
  }
  const least = makeInput(made, (place) => !dropped.has(place));
  return { what, seed, index, steps: least.steps, input: describe(least) };
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

/** Adds up counts of several runs. */
export function addCounts(
  one: Readonly<Record<string, number>>,
  other: Readonly<Record<string, number>>,
): Record<string, number> {
  const sum: Record<string, number> = { ...one };
  for (const [name, value] of Object.entries(other)) sum[name] = (sum[name] ?? 0) + value;
  return sum;
}

/** The outcomes and mutations that never occurred. */
export function notShown({
  outcomes,
  mutations,
}: Pick<ReceiveReport, 'outcomes' | 'mutations'>): readonly string[] {
  return [
    ...Object.keys(STATUS).filter((name) => !(name in outcomes) && name !== 'ERR_BODY_UNAVAILABLE'),
    ...MUTATION_NAMES.filter((name) => !(name in mutations)),
  ];
}
