/** What a good endpoint does, as data: each check sends as the service would and judges the answer. */
import { describeAnswer, isDelivered, outcomeOf } from './delivery.js';
import { type Endpoint, toBody } from './doctor-endpoint.js';
import { type Finding, wantDelivered, wantRefused } from './doctor-finding.js';
import { checkConcurrent, checkDuplicate, checkFailure } from './doctor-once-checks.js';

/** One thing to try. */
export interface Check {
  readonly name: string;
  readonly expected: string;
  readonly run: (endpoint: Endpoint) => Promise<Finding>;
}

const VERIFY_FIRST =
  'Verify before anything else, over the raw bytes, and answer 401: whoever knows the URL can invent events.';
const BROKE_ON_FORGERY =
  'Answer 401 to what is not authentic: a 5xx asks for it again, and an error or a silence can be provoked by anybody.';
const RESERIALISED =
  'The body is parsed and written again before it is verified (JSON.stringify(req.body), or a proxy). Verify the raw bytes.';

const ENDED_BY_SIZE =
  'After the large body it answers no more: limit what is read, so that its size cannot end the process.';

/** How a connection ends that the other side cut. */
const HUNG_UP: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

/** Checks of what must be refused; they hold whether or not genuine deliveries are taken. */
export const REFUSAL_CHECKS: readonly Check[] = [
  {
    name: 'unsigned',
    expected: '401',
    run: async (endpoint) =>
      refuse(await endpoint.send(toBody(endpoint.event('unsigned')), { unsigned: true })),
  },
  {
    name: 'forged',
    expected: '401',
    run: async (endpoint) => {
      const secret = new TextEncoder().encode('not the secret of this endpoint');
      return refuse(await endpoint.send(toBody(endpoint.event('forged')), { secret }));
    },
  },
  {
    name: 'tampered',
    expected: '401',
    run: async (endpoint) => {
      const amount = (value: string) => toBody(endpoint.event('tampered', { payload: { amount: value } }));
      return refuse(await endpoint.send(amount('9.99'), { signed: amount('1.00') }));
    },
  },
  {
    name: 'wrong method',
    expected: '405 or 404',
    run: async (endpoint) =>
      wantRefused(await endpoint.send(new Uint8Array(), { method: 'GET' }), {
        taken: 'Take deliveries by POST only, and answer 405 to the rest.',
        broke: 'Answer 405 to whatever is not a POST.',
      }),
  },
  {
    name: 'oversized',
    expected: '413',
    run: async (endpoint) => {
      const filler = 'x'.repeat(endpoint.oversizeBytes);
      const answer = await endpoint.send(toBody(endpoint.event('oversized', { payload: { filler } })));
      // Some servers hang up on what they will not read; that is a refusal, too, as long as they live on.
      if (answer.kind === 'unreachable' && HUNG_UP.has(answer.reason)) {
        const after = await endpoint.send(toBody(endpoint.event('after-oversized')));
        const got = describeAnswer(answer);
        if (after.kind === 'reply') return { verdict: 'pass', got };
        return { verdict: 'fail', got: `${got}, then ${describeAnswer(after)}`, fix: ENDED_BY_SIZE };
      }
      return wantRefused(answer, {
        taken: `Limit the body (${endpoint.oversizeBytes} bytes were read): anybody can fill the memory with large ones.`,
        broke: 'Answer 413 to a body over the limit, before reading all of it.',
      });
    },
  },
];

/** Checks that need genuine deliveries to be taken. */
export const DELIVERY_CHECKS: readonly Check[] = [
  {
    name: 'pretty-printed',
    expected: '2xx',
    run: async (endpoint) => {
      const body = JSON.stringify(endpoint.event('pretty-printed'), null, 2);
      return wantDelivered(await endpoint.send(encode(`${body}\n`)), { fix: RESERIALISED });
    },
  },
  {
    name: 'non-ASCII',
    expected: '2xx',
    run: async (endpoint) => {
      const body = JSON.stringify(endpoint.event('non-ascii', { payload: { note: 'Zoë 日本 🪙' } }));
      // Escapes and number formats that JSON.parse and JSON.stringify do not give back.
      const exotic = body.replace(
        '"test":true',
        '"test":true,"path":"a\\/b","letter":"\\u00e9","rate":10.50',
      );
      return wantDelivered(await endpoint.send(encode(exotic)), { fix: RESERIALISED });
    },
  },
  {
    name: 'unknown type',
    expected: '2xx',
    run: async (endpoint) => {
      const event = endpoint.event('unknown-type', { type: 'doctor.unknown' });
      return wantDelivered(await endpoint.send(toBody(event)), {
        fix: 'Take types that are newer than this release, and keep them: an error brings them back for ever.',
      });
    },
  },
  {
    name: 'slow sender',
    expected: '2xx',
    run: async (endpoint) =>
      wantDelivered(await endpoint.send(toBody(endpoint.event('slow')), { pauseMs: 100 }), {
        fix: 'Wait for the whole body: it can come in pieces, and slowly.',
      }),
  },
  {
    name: 'cut off',
    expected: '2xx for the whole one after it',
    run: async (endpoint) => {
      const body = toBody(endpoint.event('cut-off'));
      await endpoint.send(body, { cutAtBytes: Math.floor(body.length / 2) });
      const whole = await endpoint.send(body);
      if (isDelivered(whole) && outcomeOf(whole) === 'duplicate') {
        const fix = 'The half that arrived was recorded as done. Record an event only after it was verified.';
        return { verdict: 'fail', got: describeAnswer(whole), fix };
      }
      return wantDelivered(whole, {
        fix: 'A body that ends too early must change nothing, and must not end the process.',
      });
    },
  },
  { name: 'doubled', expected: '2xx, one effect', run: checkDuplicate },
  { name: 'concurrent duplicates', expected: '2xx or 503, one effect', run: checkConcurrent },
  { name: 'failing handler', expected: '5xx, or the work before the 2xx', run: checkFailure },
];

function refuse(answer: Parameters<typeof wantRefused>[0]): Finding {
  return wantRefused(answer, { taken: VERIFY_FIRST, broke: BROKE_ON_FORGERY });
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
