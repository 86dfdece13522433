/** Checks of the core that need no test runner and nothing of Node, so that any runtime can run them. */
import { parseEvent, sign, verifySignature } from 'stablehooks';

/** One check; `run` rejects when it fails. */
export interface CoreCheck {
  readonly name: string;
  run(): Promise<void>;
}

const secret = 'whsec_runtime';
const utf8 = (text: string) => new TextEncoder().encode(text);
const filled = (length: number, byte = 0xaa) => new Uint8Array(length).fill(byte);
const ENCODINGS = ['hex', 'base64', 'base64url'] as const;

/** RFC 4231, tests 1, 2, 6 and 7. */
const VECTORS = [
  [filled(20, 0x0b), 'Hi There', 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7'],
  [
    utf8('Jefe'),
    'what do ya want for nothing?',
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  ],
  [
    filled(131),
    'Test Using Larger Than Block-Size Key - Hash Key First',
    '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
  ],
  [
    filled(131),
    'This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.',
    '9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2',
  ],
] as const;

const EVENT = {
  id: 'evt_1',
  type: 'transfer.settled',
  created_at: '2024-02-29T23:59:59.5+05:30',
  payload: { amount: '10.50' },
};

/** Ids that a regular expression must recognize: the contract has no event of this kind. */
const ODD_IDS = { 'a control character': 'a\u0000', 'half of a surrogate pair': '\ud800' };

export const coreChecks: readonly CoreCheck[] = [
  {
    name: 'signatures are those of RFC 4231',
    async run() {
      for (const [key, text, mac] of VECTORS) {
        equal(await sign(utf8(text), { secret: key }), mac);
        equal(await verdictOf(utf8(text), mac.toUpperCase(), { secret: key }), 0);
      }
    },
  },
  {
    name: 'a signature matches in every encoding and at every length, and only its own body and secret',
    async run() {
      for (const length of [0, 63, 64, 65, 8_192, 8_193, 1_000_000]) {
        const body = filled(length, length % 256);
        for (const encoding of ENCODINGS) {
          const signature = await sign(body, { secret, encoding });
          equal(await verdictOf(body, signature, { secret: ['another', secret] }), 1);
          equal(await verdictOf(body, signature, { secret: 'another' }), 'ERR_SIGNATURE_MISMATCH');
          equal(await verdictOf(filled(length + 1), signature, { secret }), 'ERR_SIGNATURE_MISMATCH');
        }
      }
    },
  },
  {
    name: 'an event is parsed as it was sent, and one with an odd id is refused',
    async run() {
      equal(JSON.stringify(parseEvent(utf8(JSON.stringify(EVENT))).event), JSON.stringify(EVENT));
      for (const [what, id] of Object.entries(ODD_IDS)) {
        equal(`${what}: ${codeOf({ ...EVENT, id })}`, `${what}: ERR_EVENT_MALFORMED`);
      }
    },
  },
];

/** The index of the secret that matched, or the code of the error. */
function verdictOf(...args: Parameters<typeof verifySignature>): Promise<unknown> {
  return verifySignature(...args).then(
    ({ secretIndex }) => secretIndex,
    (error: { readonly code?: unknown }) => error.code,
  );
}

function codeOf(event: object): unknown {
  try {
    return parseEvent(utf8(JSON.stringify(event))).event.id;
  } catch (error) {
    return (error as { readonly code?: unknown }).code;
  }
}

function equal(actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`expected ${String(expected)}, got ${String(actual)}`);
}
