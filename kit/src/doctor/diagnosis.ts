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

export interface GenuineResult extends CheckResult {
  readonly answer: TestedAnswer;
  /** A refused forgery shows nothing if genuine deliveries are refused as well. */
  readonly comparable: boolean;
}

const ABSENT: ReadonlySet<number> = new Set([404, 405, 410]);

/** If the endpoint does not accept the delivery, finds out why by sending deliveries that each differ in one way. */
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

/** Even an endpoint that fails on genuine deliveries must refuse forged ones. */
async function isComparable(endpoint: TestedEndpoint, answer: TestedAnswer): Promise<boolean> {
  if (isDelivered(answer)) return true;
  if (statusOf(answer) < 500 || explainStatus(answer) !== undefined) return false;
  return isSignatureRefused(await endpoint.sendForged(toBody(endpoint.event('diagnosis'))));
}

export function adviceOf(reason: string): string {
  return connectionFailure(reason)?.fix ?? 'Check that the server is running and that the port is correct.';
}

const PARSER =
  'A body parser consumed the body before the receiver could read it. (The parser skips other content types, and the receiver accepts those.) Mount the receiver before the parser.';
const NEVER_ANSWERS =
  "The endpoint does not respond to any POST within the time limit, genuine or forged. If the endpoint is slow, pass a longer --timeout. Otherwise, a body parser may have consumed the body before the receiver could read it, or your code may never respond. Mount the receiver before the parser, and see the endpoint's log.";
const ANOTHER_SECRET =
  'The endpoint uses a different secret: it finds the signature and reads its format, but the signature does not match. Set both sides to the same secret.';
const EVENT_FIXES: Readonly<Record<string, string>> = {
  ERR_BODY_TOO_LARGE:
    "The receiver's maxBodyBytes is smaller than the test event. Raise it, or pass a smaller --payload.",
  ERR_PAYLOAD_INVALID:
    "The example payload does not match the receiver's schema. Use --payload FILE to pass a payload that matches.",
  ERR_HANDLER_FAILED:
    "The handler threw an error on the test payload. See the endpoint's log, or use --payload FILE to pass a payload that the handler accepts.",
};

/** These codes have several possible causes, so the fixes are used only if no other delivery shows the cause. */
const UNCLEAR_FIXES: Readonly<Record<string, (endpoint: TestedEndpoint) => string>> = {
  ERR_SIGNATURE_MISSING: ({ header }) =>
    `The receiver finds no signature in ${header}. Set \`signature: { header }\` of the receiver to the header that the service sends, or pass the name of that header with --header. Make sure that proxies forward the header.`,
  ERR_SIGNATURE_MALFORMED: () =>
    "The receiver does not recognise the format of the signature. Pass the service's --encoding or --prefix, and set the same values in the receiver's `signature`.",
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
    return `Nothing accepts a POST at ${path} (${answer.status}). Check the path, and check that the receiver is mounted there.`;
  }

  const event = endpoint.event('diagnosis');
  const mayFail = answer.status >= 500;
  const differences = mayFail ? [UNPARSED, withoutMarks(event)] : listDifferences(endpoint, event, secret);
  for (const { body = toBody(event), options, fix } of differences) {
    if (!isDelivered(await endpoint.send(body, options))) continue;
    // An endpoint that fails only sometimes could accept any of these, so the difference need not be the reason.
    if (!isDelivered(await endpoint.send(toBody(endpoint.event('confirmation'))))) return fix;
    return `The endpoint refused a genuine delivery (${answer.status}), but accepted a later one of the same form. ${quoteReply(answer)} See the endpoint's log.`;
  }
  if (isPayloadRefused) return fixOf(answer.code) ?? '';
  if (mayFail) {
    return `The endpoint fails on a genuine delivery (${answer.status}). ${quoteReply(answer)} See the endpoint's log, or use --payload FILE to pass a payload that the handler accepts.`;
  }
  if (await isBodyChanged(endpoint)) {
    return 'The body is changed before it is verified: the endpoint accepts the signature of an empty object, but not the signature of an event. Make sure that proxies forward the body unchanged, and verify the raw bytes.';
  }
  const unclear = answer.code === undefined ? undefined : UNCLEAR_FIXES[answer.code];
  if (unclear !== undefined) return unclear(endpoint);
  return `The endpoint refuses a genuine delivery (${answer.status}), whatever the form of the signature. ${quoteReply(answer)} Compare the secret and the header (--header ${endpoint.header}) on both sides.`;
}

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
    return `The endpoint redirects (${answer.status}), but does not say where. Respond to deliveries at this URL.`;
  }
  const { origin, pathname, search } = new URL(target, url);
  const shown = toPlain(nameEndpoint(`${origin}${pathname}${search}`));
  return `The endpoint redirects (${answer.status}) with Location: ${shown}. Deliveries do not follow redirects. Register that URL if the receiver is there. Otherwise, respond at this URL without a redirect or a login.`;
}

/** Either the handler is slow, or the endpoint never reads the body. */
async function explainSilence(endpoint: TestedEndpoint): Promise<string> {
  const body = toBody(endpoint.event('silence'));
  const refused = await endpoint.sendForged(body);
  if (refused.kind !== 'reply') {
    const unparsed = await endpoint.send(body, { contentType: 'application/octet-stream' });
    return unparsed.kind === 'reply' ? PARSER : NEVER_ANSWERS;
  }
  return `The endpoint does not respond within ${toSeconds(endpoint.timeoutMs)} s (--timeout). It refuses a forged delivery after ${refused.elapsedMs} ms, so the handler is slow. Enqueue the work durably and return 202, or make the handler faster.`;
}

function toSeconds(ms: number): string {
  return String(Math.round(ms / 100) / 10);
}

/** Whether the endpoint accepts the signature of a body that no JSON writer changes, but not the signature of an event. */
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

const JSON_FORMS: readonly (readonly [form: string, indent: string])[] = [
  ['indented by 2 spaces', '  '],
  ['indented by 4 spaces', '    '],
  ['indented by tabs', '\t'],
];

/** `fix` applies if the endpoint accepts this delivery. */
interface Difference {
  readonly options?: SendOptions;
  readonly body?: Uint8Array;
  readonly fix: string;
}

const UNPARSED: Difference = { options: { contentType: 'application/octet-stream' }, fix: PARSER };

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
      fix: `The endpoint accepts the signature only as ${encoding}. Compare the decoded bytes, not the strings, or pass the encoding that the service uses (--encoding).`,
    })),
    {
      options: { prefix: 'sha256=' },
      fix: 'The endpoint accepts the signature only with the prefix sha256=. Accept the signature as the service sends it, or pass --prefix.',
    },
    ...USUAL_HEADERS.filter((header) => header !== endpoint.header.toLowerCase()).map((header) => ({
      options: { header },
      fix: `The endpoint reads the signature from ${header}, but this check sends it in ${endpoint.header}. Read the header that the service sends, or pass --header ${header} if the service sends that one.`,
    })),
    ...others.map(({ value, changes }) => ({
      options: { secret: value },
      fix: `The endpoint uses a different form of this secret: ${changes.map(({ what }) => what).join(', ')}. Set both sides to the same string.`,
    })),
    ...JSON_FORMS.flatMap(([form, indent]) =>
      ['', '\n'].map((end) => ({
        options: { signed: new TextEncoder().encode(JSON.stringify(event, null, indent) + end) },
        fix: `The body is changed before it is verified: it arrives as JSON that is ${form}. Make sure that proxies forward the body unchanged, and verify the raw bytes.`,
      })),
    ),
    withoutMarks(event),
  ];
}
