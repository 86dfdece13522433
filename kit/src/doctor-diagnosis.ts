/** Why an endpoint does not take a genuine delivery: tries others that it would take, and names the difference. */
import { SIGNATURE_ENCODINGS } from 'stablehooks';
import { type Answer, describeAnswer, isDelivered, statusOf } from './delivery.js';
import { type Endpoint, type Manner, toBody } from './doctor-endpoint.js';
import type { Finding } from './doctor-finding.js';
import { listSecrets } from './secret-variants.js';

const PARSER =
  'A body parser stands in front and took the bytes (it skips other content types, and those get through). Mount the receiver above it.';
const HANGS =
  'It never answers: it may wait for a body that a parser in front has consumed, or for work without a time limit. Mount the receiver above the parser; limit the handler.';

/** What a stablehooks receiver itself says is wrong. */
const CODES: Readonly<Record<string, string>> = {
  ERR_BODY_UNAVAILABLE: PARSER,
  ERR_SIGNATURE_MISSING:
    'It looks for another header: pass its name with --header, and let proxies pass it on.',
  ERR_SIGNATURE_MALFORMED:
    'It pins another encoding or prefix: pass --encoding or --prefix as the service sends it.',
  ERR_PAYLOAD_INVALID: 'Its schema does not know the test payload: pass one that fits with --payload FILE.',
  ERR_HANDLER_FAILED:
    'Its handler threw on the test payload: see its log, or pass a payload that fits with --payload FILE.',
  ERR_HANDLER_TIMEOUT: 'Its handler did not end in time: see its log.',
  ERR_INBOX_FAILED: 'It cannot reach its inbox: see its log.',
  ERR_QUEUE_FAILED: 'It cannot reach its queue: see its log.',
};

/** Sends a genuine delivery; where it is not taken, finds out why. */
export async function checkGenuine(
  endpoint: Endpoint,
  { secret }: { readonly secret: string },
): Promise<Finding & { readonly answer: Answer }> {
  const answer = await endpoint.send(toBody(endpoint.event('genuine')));
  const got = describeAnswer(answer);
  if (isDelivered(answer)) return { verdict: 'pass', got, answer };
  return { verdict: 'fail', got, answer, fix: await findCure(endpoint, { answer, secret }) };
}

async function findCure(
  endpoint: Endpoint,
  { answer, secret }: { readonly answer: Answer; readonly secret: string },
): Promise<string> {
  const known = answer.kind === 'reply' && answer.code !== undefined ? CODES[answer.code] : undefined;
  if (known !== undefined) return known;
  if ([404, 405].includes(statusOf(answer))) {
    return 'Nothing takes a POST at this URL: check the path, and that the receiver is mounted there.';
  }
  for (const { manner, fix } of differences(secret)) {
    const other = await endpoint.send(toBody(endpoint.event('diagnosis')), manner);
    if (isDelivered(other)) return fix;
    if (other.kind === 'silence') return HANGS;
  }
  if (answer.kind === 'silence') return HANGS;
  return statusOf(answer) < 500
    ? 'It expects another secret or another header, or does not verify the raw bytes: compare its secret with this one, and set --header.'
    : 'It fails on a genuine delivery: see its log; pass a payload that its handler takes with --payload FILE.';
}

/** Deliveries that differ in one thing; the first that is taken names what is wrong. */
function differences(secret: string): readonly { readonly manner: Manner; readonly fix: string }[] {
  const others = listSecrets(new TextEncoder().encode(secret), { depth: 1 }).filter(
    ({ changes }) => changes.length > 0,
  );
  return [
    { manner: { contentType: 'application/octet-stream' }, fix: PARSER },
    ...SIGNATURE_ENCODINGS.map((encoding) => ({
      manner: { encoding },
      fix: `It takes the signature as ${encoding} only. Compare the decoded bytes, not the text, or say which encoding the service sends (--encoding).`,
    })),
    {
      manner: { prefix: 'sha256=' },
      fix: 'It takes the signature with sha256= in front only. Take it as the service sends it (--prefix).',
    },
    ...others.map(({ value, changes }) => ({
      manner: { secret: value },
      fix: `It holds another form of this secret: ${changes.map(({ what }) => what).join(', ')}. Set both to the same text.`,
    })),
  ];
}
