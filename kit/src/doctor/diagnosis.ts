import { SIGNATURE_ENCODINGS } from 'stablehooks';
import { connectionFailure } from '../explain/connection.js';
import { listSecrets } from '../explain/known-changes.js';
import { findingOf } from '../explain/replies.js';
import { type EndpointAnswer, isDelivered, isSignatureRefused, statusOf } from '../io/answer.js';
import { toPlain } from '../io/output.js';
import { nameEndpoint } from '../io/place.js';
import {
  ACTED_ON_UNKNOWN,
  type CheckResult,
  expectNoEffect,
  explainStatus,
  judgeDelivery,
  judgeEffect,
  quoteReply,
  UNKNOWN_FIELDS,
} from './checks.js';
import {
  type SendOptions,
  type TestEvent,
  type TestedAnswer,
  type TestedEndpoint,
  toBody,
} from './endpoint.js';

/** The result of a genuine delivery, and whether other checks can still show something. */
export interface GenuineResult extends CheckResult {
  readonly answer: TestedAnswer;
  /** Whether the refusal of a forgery shows something, which it does not if genuine deliveries are refused as well. */
  readonly comparable: boolean;
}

const ABSENT: ReadonlySet<number> = new Set([404, 405, 410]);

/**
 * Sends a genuine delivery. If it is not accepted, finds out why with deliveries that differ in one thing.
 *
 * @throws {CommandError} when `--effects` returns no count.
 */
export async function checkGenuine(endpoint: TestedEndpoint, secret: string): Promise<GenuineResult> {
  const event = endpoint.event('genuine');
  const answer = await endpoint.send(toBody(event));
  const delivery = judgeDelivery(endpoint, answer);
  const result =
    delivery.verdict !== 'pass'
      ? delivery
      : endpoint.runsHandlers
        ? await judgeEffect(endpoint, { id: event.id, answer })
        : await expectNoEffect(endpoint, { id: event.id, answer, result: delivery, fix: ACTED_ON_UNKNOWN });
  const unexplained = result.verdict === 'fail' && result.fix === undefined;
  const fix = unexplained ? await findFix(endpoint, answer, secret) : result.fix;
  return { ...result, fix, answer, comparable: await isComparable(endpoint, answer) };
}

/** An endpoint that fails on genuine deliveries must refuse forged ones before its handler fails. */
async function isComparable(endpoint: TestedEndpoint, answer: TestedAnswer): Promise<boolean> {
  if (isDelivered(answer)) return true;
  if (statusOf(answer) < 500 || explainStatus(answer) !== undefined) return false;
  return isSignatureRefused(await endpoint.sendForged(toBody(endpoint.event('diagnosis'))));
}

/** The fix when the genuine delivery found no connection, or lost it. */
export function adviceOf(reason: string): string {
  return connectionFailure(reason)?.fix ?? 'Check that it is started, and the port.';
}

const PARSER =
  'A body parser before the receiver consumed the bytes (it skips other content types, and those are accepted). Mount the receiver before the parser.';
const NEVER_ANSWERS =
  'It answers no POST in that time, whether it is genuine or forged. If it is slow to answer, pass a longer --timeout. If not, it may wait for a body that a body parser before the receiver has consumed, or forget to answer: mount the receiver before the parser, and see its log.';
const ANOTHER_SECRET =
  'It has another secret than this one: a signature of the same form, in the same header, over the same bytes does not match. Set both sides to the same secret.';
/** The fix for codes of a stablehooks receiver that the test event itself can cause. */
const EVENT_FIXES: Readonly<Record<string, string>> = {
  ERR_BODY_TOO_LARGE:
    'Its maxBodyBytes is smaller than the test event: raise it, or pass a smaller --payload.',
  ERR_PAYLOAD_INVALID:
    'The example payload does not match its schema: pass a payload that does with --payload FILE.',
  ERR_HANDLER_FAILED:
    'Its handler threw on the test payload: see its log, or pass a payload that the handler accepts with --payload FILE.',
};

/** The fix for codes with several possible causes, when no other delivery shows the cause. */
const UNCLEAR_FIXES: Readonly<Record<string, (endpoint: TestedEndpoint) => string>> = {
  ERR_SIGNATURE_MISSING: ({ header }) =>
    `It finds no signature in ${header}: set \`signature: { header }\` of the receiver to the header that the service sends, or pass its name with --header; let proxies pass it on.`,
  ERR_SIGNATURE_MALFORMED: () =>
    'It cannot read the form of the signature: pass --encoding or --prefix as the service uses them, and set the same in `signature` of the receiver.',
  ERR_SIGNATURE_MISMATCH: () => ANOTHER_SECRET,
};

async function findFix(endpoint: TestedEndpoint, answer: TestedAnswer, secret: string): Promise<string> {
  if (answer.kind === 'unreachable') return adviceOf(answer.reason);
  if (answer.kind !== 'reply') return explainSilence(endpoint);
  if (isRedirect(answer)) return explainRedirect(endpoint, answer);
  const isPayloadRefused = answer.code === 'ERR_PAYLOAD_INVALID';
  const known = (isPayloadRefused ? undefined : fixOf(answer.code)) ?? explainStatus(answer);
  if (known !== undefined) return known;
  if (ABSENT.has(answer.status)) {
    const path = toPlain(new URL(endpoint.url).pathname);
    return `Nothing accepts a POST at ${path} (${answer.status}): check the path, and that the receiver is mounted there.`;
  }

  const event = endpoint.event('diagnosis');
  const mayFail = answer.status >= 500;
  const differences = mayFail ? [UNPARSED, withoutMarks(event)] : listDifferences(endpoint, event, secret);
  for (const { body = toBody(event), options, fix } of differences) {
    if (!isDelivered(await endpoint.send(body, options))) continue;
    // An endpoint that fails now and then accepts any of them. Then the difference is not the reason.
    if (!isDelivered(await endpoint.send(toBody(endpoint.event('confirmation'))))) return fix;
    return `It refused a genuine delivery (${answer.status}) and accepted a later one of the same form. ${quoteReply(answer)} See its log.`;
  }
  if (isPayloadRefused) return fixOf(answer.code) ?? '';
  if (mayFail) {
    return `It fails on a genuine delivery (${answer.status}). ${quoteReply(answer)} See its log, or pass a payload that its handler accepts with --payload FILE.`;
  }
  if (await isBodyChanged(endpoint)) {
    return 'The body is changed before it is verified: the signature of an empty object is accepted, and the signature of an event is not. Let proxies pass the body on byte for byte, and verify the raw bytes.';
  }
  const unclear = answer.code === undefined ? undefined : UNCLEAR_FIXES[answer.code];
  if (unclear !== undefined) return unclear(endpoint);
  return `It refuses a genuine delivery (${answer.status}), and every other form of its signature. ${quoteReply(answer)} Compare the secret, and the header (--header ${endpoint.header}).`;
}

/** The fix for codes with one cause. */
function fixOf(code: string | undefined): string | undefined {
  if (code === undefined || Object.hasOwn(UNCLEAR_FIXES, code)) return undefined;
  if (Object.hasOwn(EVENT_FIXES, code)) return EVENT_FIXES[code];
  const { what, fix } = findingOf(code) ?? {};
  return fix ? `${what} ${fix}` : undefined;
}

function isRedirect(answer: EndpointAnswer): boolean {
  return statusOf(answer) >= 300 && statusOf(answer) < 400;
}

function explainRedirect({ url }: TestedEndpoint, answer: EndpointAnswer & { kind: 'reply' }): string {
  const target = answer.location;
  if (target === undefined || !URL.canParse(target, url)) {
    return `It redirects (${answer.status}), and does not say where. Answer deliveries at this URL.`;
  }
  const { origin, pathname, search } = new URL(target, url);
  const shown = toPlain(nameEndpoint(`${origin}${pathname}${search}`));
  return `It redirects (${answer.status}) with Location: ${shown}. Deliveries do not follow redirects: register that URL if the receiver is there, or answer at this one without a redirect, or a login.`;
}

/** Finds out why a genuine delivery is not answered: the handler is slow, or the body is never read. */
async function explainSilence(endpoint: TestedEndpoint): Promise<string> {
  const body = toBody(endpoint.event('silence'));
  const refused = await endpoint.sendForged(body);
  if (refused.kind !== 'reply') {
    const unparsed = await endpoint.send(body, { contentType: 'application/octet-stream' });
    return unparsed.kind === 'reply' ? PARSER : NEVER_ANSWERS;
  }
  return `It does not answer within ${toSeconds(endpoint.timeoutMs)} s (--timeout). A forged delivery is refused after ${refused.elapsedMs} ms, so the handler is slow: enqueue the work durably and answer 202, or make it faster.`;
}

function toSeconds(ms: number): string {
  return String(Math.round(ms / 100) / 10);
}

/** Whether a signature over a body that no JSON writer changes is accepted, unlike the signature of an event. */
async function isBodyChanged(endpoint: TestedEndpoint): Promise<boolean> {
  const body = new TextEncoder().encode('{}');
  const forged = await endpoint.sendForged(body);
  const genuine = await endpoint.send(body);
  return genuine.kind === 'reply' && isSignatureRefused(forged) && statusOf(genuine) !== statusOf(forged);
}

const USUAL_HEADERS = [
  'x-service-signature',
  'x-signature',
  'x-webhook-signature',
  'webhook-signature',
  'x-hub-signature-256',
  'signature',
];

/** Forms in which proxies and parsers write JSON. */
const JSON_FORMS: readonly (readonly [form: string, indent: string])[] = [
  ['indented by 2 spaces', '  '],
  ['indented by 4 spaces', '    '],
  ['indented by tabs', '\t'],
];

/** A delivery that differs in one thing, and the fix if the endpoint accepts it. */
interface Difference {
  readonly options?: SendOptions;
  /** @default the body of the event */
  readonly body?: Uint8Array;
  readonly fix: string;
}

const UNPARSED: Difference = { options: { contentType: 'application/octet-stream' }, fix: PARSER };

/** The event without the fields that mark a test. */
function withoutMarks(event: TestEvent): Difference {
  const { test: _, doctor: __, ...payload } = event.payload;
  return { body: toBody({ ...event, payload }), fix: UNKNOWN_FIELDS };
}

function listDifferences(endpoint: TestedEndpoint, event: TestEvent, secret: string): readonly Difference[] {
  const others = listSecrets(new TextEncoder().encode(secret), 1).filter(({ changes }) => changes.length > 0);
  return [
    UNPARSED,
    ...SIGNATURE_ENCODINGS.map((encoding) => ({
      options: { encoding },
      fix: `It accepts the signature as ${encoding} only. Compare the decoded bytes, not the strings, or pass the encoding that the service uses (--encoding).`,
    })),
    {
      options: { prefix: 'sha256=' },
      fix: 'It accepts the signature only with the prefix sha256=. Accept it as the service sends it, or pass --prefix.',
    },
    ...USUAL_HEADERS.filter((header) => header !== endpoint.header.toLowerCase()).map((header) => ({
      options: { header },
      fix: `It reads the signature from ${header}, and this check sends it in ${endpoint.header}. Read the header that the service sends, or pass --header ${header} if that is the one.`,
    })),
    ...others.map(({ value, changes }) => ({
      options: { secret: value },
      fix: `It has another form of this secret: ${changes.map(({ what }) => what).join(', ')}. Set both to the same string.`,
    })),
    ...JSON_FORMS.flatMap(([form, indent]) =>
      ['', '\n'].map((end) => ({
        options: { signed: new TextEncoder().encode(JSON.stringify(event, null, indent) + end) },
        fix: `The body is changed before it is verified: it arrives as JSON that is ${form}. Let proxies pass the body on byte for byte, and verify the raw bytes.`,
      })),
    ),
    withoutMarks(event),
  ];
}
