import { SIGNATURE_ENCODINGS } from 'stablehooks';
import { listSecrets } from '../explain/known-changes.js';
import { describeAnswer, type EndpointAnswer, isDelivered, statusOf } from '../io/delivery.js';
import type { CheckResult } from './checks.js';
import { type SendOptions, type TestedEndpoint, toBody } from './endpoint.js';

const PARSER =
  'A body parser before the receiver consumed the bytes (it skips other content types, and those are accepted). Mount the receiver before the parser.';
const NEVER_ANSWERS =
  'It never answers: it may wait for a body that a body parser has consumed, or for work without a time limit. Mount the receiver before the parser; limit the time of the handler.';

/** The fix for each code in the reply of a stablehooks receiver. */
const FIXES: Readonly<Record<string, string>> = {
  ERR_BODY_UNAVAILABLE: PARSER,
  ERR_SIGNATURE_MISSING:
    'It expects another header: pass its name with --header, and let proxies pass the header on.',
  ERR_SIGNATURE_MALFORMED:
    'It expects another encoding or prefix: pass --encoding or --prefix as the service uses them.',
  ERR_PAYLOAD_INVALID: 'The test payload does not match its schema: pass one that does with --payload FILE.',
  ERR_HANDLER_FAILED:
    'Its handler threw on the test payload: see its log, or pass a payload that the handler accepts with --payload FILE.',
  ERR_HANDLER_TIMEOUT: 'Its handler did not end in time: see its log.',
  ERR_INBOX_FAILED: 'It cannot reach its inbox: see its log.',
  ERR_QUEUE_FAILED: 'It cannot reach its queue: see its log.',
};

/** Sends a genuine delivery. If it is refused, tries deliveries that differ in one thing to find out why. */
export async function checkGenuine(
  endpoint: TestedEndpoint,
  secret: string,
): Promise<CheckResult & { readonly answer: EndpointAnswer }> {
  const answer = await endpoint.send(toBody(endpoint.event('genuine')));
  const got = describeAnswer(answer);
  if (isDelivered(answer)) return { verdict: 'pass', got, answer };
  return { verdict: 'fail', got, answer, fix: await findFix(endpoint, answer, secret) };
}

async function findFix(endpoint: TestedEndpoint, answer: EndpointAnswer, secret: string): Promise<string> {
  const known = answer.kind === 'reply' && answer.code !== undefined ? FIXES[answer.code] : undefined;
  if (known !== undefined) return known;
  if ([404, 405].includes(statusOf(answer))) {
    return 'Nothing accepts a POST at this URL: check the path, and that the receiver is mounted there.';
  }
  for (const { options, fix } of listDifferences(secret)) {
    const other = await endpoint.send(toBody(endpoint.event('diagnosis')), options);
    if (isDelivered(other)) return fix;
    if (other.kind === 'silence') return NEVER_ANSWERS;
  }
  if (answer.kind === 'silence') return NEVER_ANSWERS;
  return statusOf(answer) < 500
    ? 'It expects another secret or another header, or does not verify the raw bytes: compare its secret with this one, and set --header.'
    : 'It fails on a genuine delivery: see its log; pass a payload that its handler accepts with --payload FILE.';
}

/** Deliveries that differ in one thing, and the fix if the endpoint accepts one. */
function listDifferences(secret: string): readonly { readonly options: SendOptions; readonly fix: string }[] {
  const others = listSecrets(new TextEncoder().encode(secret), 1).filter(({ changes }) => changes.length > 0);
  return [
    { options: { contentType: 'application/octet-stream' }, fix: PARSER },
    ...SIGNATURE_ENCODINGS.map((encoding) => ({
      options: { encoding },
      fix: `It accepts the signature as ${encoding} only. Compare the decoded bytes, not the strings, or pass the encoding that the service uses (--encoding).`,
    })),
    {
      options: { prefix: 'sha256=' },
      fix: 'It accepts the signature only with the prefix sha256=. Accept it as the service sends it, or pass --prefix.',
    },
    ...others.map(({ value, changes }) => ({
      options: { secret: value },
      fix: `It has another form of this secret: ${changes.map(({ what }) => what).join(', ')}. Set both to the same string.`,
    })),
  ];
}
