/** The adapter contract, part one: signatures that are missing, mangled, wrong, and right in every spelling. */
import { SIGNATURE_HEADER } from '../core/signature.js';
import { CONTRACT_SECRETS } from './contract-receiver.js';
import {
  assertOutcome,
  assertProblem,
  bytesOf,
  type ContractCase,
  contractEvent,
  deliver,
  signedHeaders,
} from './contract-sender.js';

const HANDLED = { status: 200, outcome: 'handled' };

/** Each makes a signature header, given the right one. */
const REFUSED: readonly {
  readonly name: string;
  readonly code: 'ERR_SIGNATURE_MISSING' | 'ERR_SIGNATURE_MALFORMED' | 'ERR_SIGNATURE_MISMATCH';
  readonly spoil: (signature: string) => string | string[] | undefined;
}[] = [
  { name: 'no signature', code: 'ERR_SIGNATURE_MISSING', spoil: () => undefined },
  { name: 'an empty signature', code: 'ERR_SIGNATURE_MISSING', spoil: () => '' },
  { name: 'a short signature', code: 'ERR_SIGNATURE_MALFORMED', spoil: (right) => right.slice(0, -1) },
  { name: 'a long signature', code: 'ERR_SIGNATURE_MALFORMED', spoil: (right) => `${right}0` },
  { name: 'a very long signature', code: 'ERR_SIGNATURE_MALFORMED', spoil: (right) => right.repeat(80) },
  {
    name: 'junk between the digits',
    code: 'ERR_SIGNATURE_MALFORMED',
    spoil: (right) => `${right.slice(0, 31)}zz${right.slice(33)}`,
  },
  {
    name: 'a non-ASCII signature',
    code: 'ERR_SIGNATURE_MALFORMED',
    spoil: (right) => `${right.slice(0, 62)}\u00e9\u00ff`,
  },
  {
    name: 'a signature with UTF-8 digits',
    code: 'ERR_SIGNATURE_MALFORMED',
    // The bytes of a full-width digit, as a header carries them.
    spoil: (right) => right.slice(0, 63) + Buffer.from('１').toString('latin1'),
  },
  { name: 'a doubled signature', code: 'ERR_SIGNATURE_MALFORMED', spoil: (right) => [right, right] },
  {
    name: 'a forged signature before the right one',
    code: 'ERR_SIGNATURE_MALFORMED',
    spoil: (right) => ['0'.repeat(64), right],
  },
  {
    name: 'a prefix that is not configured',
    code: 'ERR_SIGNATURE_MALFORMED',
    spoil: (right) => `sha256=${right}`,
  },
  { name: 'a signature of zeros', code: 'ERR_SIGNATURE_MISMATCH', spoil: () => '0'.repeat(64) },
  {
    name: 'a signature with one digit changed',
    code: 'ERR_SIGNATURE_MISMATCH',
    spoil: (right) => (right.startsWith('0') ? '1' : '0') + right.slice(1),
  },
];

const refused: readonly ContractCase[] = REFUSED.map(({ name, code, spoil }) => ({
  name: `${name} gets 401 ${code}`,
  async run(target) {
    const event = contractEvent();
    const right = (await signedHeaders(bytesOf(event)))[SIGNATURE_HEADER] ?? '';
    const reply = await deliver(target, event, { headers: { [SIGNATURE_HEADER]: spoil(right) } });
    assertProblem(reply, { status: 401, code });
    // The forgery left no trace: the honest delivery is the first.
    assertOutcome(await deliver(target, event), HANDLED);
  },
}));

/** What a genuine sender may do. */
const ACCEPTED = [
  { name: 'hex', encoding: 'hex', secret: CONTRACT_SECRETS[0] },
  { name: 'base64', encoding: 'base64', secret: CONTRACT_SECRETS[0] },
  { name: 'base64url', encoding: 'base64url', secret: CONTRACT_SECRETS[0] },
  { name: 'hex under the second secret', encoding: 'hex', secret: CONTRACT_SECRETS[1] },
] as const;

const accepted: readonly ContractCase[] = ACCEPTED.map(({ name, ...options }) => ({
  name: `a signature in ${name} is accepted`,
  async run(target) {
    const event = contractEvent();
    const headers = await signedHeaders(bytesOf(event), options);
    assertOutcome(await deliver(target, event, { headers }), HANDLED);
  },
}));

export const signatureCases: readonly ContractCase[] = [
  ...refused,
  ...accepted,
  {
    name: 'upper-case digits and an upper-case header name are accepted',
    async run(target) {
      const event = contractEvent();
      const right = (await signedHeaders(bytesOf(event)))[SIGNATURE_HEADER] ?? '';
      const headers = {
        [SIGNATURE_HEADER]: undefined,
        [SIGNATURE_HEADER.toUpperCase()]: right.toUpperCase(),
      };
      assertOutcome(await deliver(target, event, { headers }), HANDLED);
    },
  },
  {
    name: 'a secret that is not ours gets 401 ERR_SIGNATURE_MISMATCH',
    async run(target) {
      const event = contractEvent();
      const headers = await signedHeaders(bytesOf(event), { secret: 'somebody-else' });
      assertProblem(await deliver(target, event, { headers }), {
        status: 401,
        code: 'ERR_SIGNATURE_MISMATCH',
      });
    },
  },
  {
    name: 'a body changed by one space gets 401 ERR_SIGNATURE_MISMATCH',
    async run(target) {
      const event = contractEvent();
      const headers = await signedHeaders(bytesOf(event));
      const reply = await deliver(target, `${JSON.stringify(event)} `, { headers });
      assertProblem(reply, { status: 401, code: 'ERR_SIGNATURE_MISMATCH' });
    },
  },
  {
    name: 'invalid bytes do not pass under the signature of their U+FFFD text',
    async run(target) {
      const text = JSON.stringify(contractEvent({ word: '\ufffd' }));
      const headers = await signedHeaders(bytesOf(text));
      const reply = await deliver(target, withInvalidByte(text), { headers });
      assertProblem(reply, { status: 401, code: 'ERR_SIGNATURE_MISMATCH' });
    },
  },
];

/** The text's bytes, U+FFFD replaced by a byte that is no UTF-8. */
export function withInvalidByte(text: string): Buffer {
  const [before = '', after = ''] = text.split('\ufffd');
  return Buffer.concat([Buffer.from(before), Buffer.of(0xff), Buffer.from(after)]);
}
